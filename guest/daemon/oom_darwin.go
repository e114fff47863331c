package daemon

// giveWay does nothing: this kernel has no setting for what to kill first.
func giveWay(int) error { return nil }
