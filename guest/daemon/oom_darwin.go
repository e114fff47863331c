package daemon

// giveWay does nothing: this kernel is not told whom to end first.
func giveWay(int) error { return nil }
