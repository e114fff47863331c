package daemon

// listening needs /proc: macOS tells open files only to its own tools.
func listening(map[int]member) []int { return nil }
