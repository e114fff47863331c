package rest

import "log/slog"

// Shared is what the operations of all subjects stand on.
type Shared struct {
	*Privacy
	*Browsers
	*Throttle
	Log *slog.Logger
}
