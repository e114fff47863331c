package server

import (
	"fmt"
	"runtime/debug"
)

// broken is a panic as an error: the value and where it happened, for the log.
func broken(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }
