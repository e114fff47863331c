package executors

// Enforcer is an optional ability of an Executor that itself enforces what its sandboxes reach, in the place of a gate of this server.
type Enforcer interface {
	// NetworkChanged has a sandbox reach what n says from now on, also where that cannot be done at once. It does not block. A sandbox the
	// executor does not know is none of its business.
	NetworkChanged(sandboxID string, n Network)
}
