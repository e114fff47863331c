//go:build !linux

package launch

import "errors"

// Run says that boxes need Linux.
func Run() error { return errors.New("boxes need Linux") }
