package instance

import (
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

func TestOneServerInADataFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/data"
	first, err := LockData(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LockData(dir); fault.CodeOf(err) != "data_dir_in_use" || !strings.Contains(err.Error(), "process ") {
		t.Errorf("a second server: %v", err)
	}
	// The lock of a server that goes is waited for.
	free := time.AfterFunc(100*time.Millisecond, first.Release)
	defer free.Stop()
	second, err := LockData(dir)
	if err != nil {
		t.Fatalf("after the first has gone: %v", err)
	}
	second.Release()
}
