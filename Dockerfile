# The grader in a container, for machines whose own system cannot shut student code in (see `autograder doctor`).
# Namespaces must be allowed inside, for bubblewrap to work:
#   docker build -t attention-course .
#   docker run --rm --network none --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
#       -v "$PWD/grading:/grading" attention-course
# The folder that is mounted must belong to user 1000. The file was linted, but never built.
FROM python:3.11-slim-bookworm

ARG PIP_EXTRA_INDEX_URL=""
ENV PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /course

COPY requirements.lock ./
RUN pip install -r requirements.lock

COPY . ./
# Editable, so that the answers lie in this folder, which student code does not see, and not among the packages.
RUN pip install --no-deps --editable . \
    && useradd --uid 1000 --create-home instructor \
    && install --directory --owner instructor /grading

USER 1000
ENTRYPOINT ["autograder"]
CMD ["grade", "/grading/submitted", "--out", "/grading"]
