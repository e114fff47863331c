//go:build !linux

package launch

import "errors"

// Run returns an error: sandboxes need Linux.
func Run() error { return errors.New("boxes need Linux") }
