package docker

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An ssh that ends before it reads tells why to whoever writes, too: what is asked may be faster than its end, or not.
func TestAnSSHThatEndedTellsWhy(t *testing.T) {
	dir := t.TempDir()
	syscall.ForkLock.RLock()
	err := os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\necho 'Permission denied (publickey).' >&2\nexit 255\n"), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	conn, err := startSSH(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	<-conn.(*sshConn).done
	if _, err := conn.Write([]byte("GET /info")); err == nil || !strings.Contains(err.Error(), "Permission denied") {
		t.Errorf("write: %v", err)
	}
	if _, err := conn.Read(make([]byte, 10)); err == nil || !strings.Contains(err.Error(), "Permission denied") {
		t.Errorf("read: %v", err)
	}
}
