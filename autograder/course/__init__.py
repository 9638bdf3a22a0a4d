"""What an instructor does around grading: settings, hand-ins from the platforms, marks for them, reports, releases."""
