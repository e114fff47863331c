//go:build !linux

package billing

import "time"

// elapsed is the time since the program was started.
func elapsed() time.Duration { return time.Since(began) }

var began = time.Now()
