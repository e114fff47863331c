//go:build !linux

package testlink

func (l *Link) open() error { return l.openLoopback() }
