"""Where nbgrader finds the course, and how it grades. Everything that grading makes goes below ``_build/grading``."""

from pathlib import Path

c = get_config()

root = Path(__file__).parent
grading = root / "_build" / "grading"
grading.mkdir(parents=True, exist_ok=True)

c.CourseDirectory.root = str(root)
c.CourseDirectory.course_id = "attention-course"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.CourseDirectory.submitted_directory = "_build/grading/submitted"
c.CourseDirectory.autograded_directory = "_build/grading/autograded"
c.CourseDirectory.feedback_directory = "_build/grading/feedback"
c.CourseDirectory.solution_directory = "_build/grading/solution"
c.CourseDirectory.db_url = f"sqlite:///{grading / 'gradebook.db'}"

# The sources hold the answers.
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc*", "__pycache__", "*.py"]

# `nbgrader autograde` grades in the sandbox, as `autograder grade` does: no notebook runs in a kernel. The exporter
# makes a clean copy of what was handed in, with the marks of the release on it: nothing is left to sanitize or check.
c.Autograde.exporter_class = "autograder.grading.preprocessing.SubmissionExporter"
c.Autograde.sanitize_preprocessors = ["nbgrader.preprocessors.ClearOutput"]
c.Autograde.autograde_preprocessors = [
    "autograder.grading.preprocessing.GradeKernels",
    "autograder.grading.preprocessing.SaveMarks",
    "nbgrader.preprocessors.AssignLatePenalties",
]
c.SubmissionExporter.optimistic_validation = True
c.SubmissionExporter.directory = str(grading)
