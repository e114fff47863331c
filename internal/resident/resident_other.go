//go:build !linux

package resident

func dropProgram() error { return nil }
