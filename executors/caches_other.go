//go:build !linux

package executors

import "errors"

func shareBelow(string) error { return errors.New("access lists need Linux") }
