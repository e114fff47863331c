package workspaces

import (
	"errors"
)

// Causes with which work under way is cancelled.
var (
	ErrCancelled = errors.New("cancelled by a person")
	ErrShutdown  = errors.New("the server was stopped")
)
