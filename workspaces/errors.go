package workspaces

import (
	"errors"
)

// Causes for cancelling work in progress.
var (
	ErrCancelled = errors.New("cancelled by a person")
	ErrShutdown  = errors.New("the server was stopped")
)
