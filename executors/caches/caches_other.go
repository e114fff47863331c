//go:build !linux

package caches

import "errors"

func shareBelow(string) error { return errors.New("access lists need Linux") }
