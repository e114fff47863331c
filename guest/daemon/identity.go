package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/atomicfile"
)

// IdentityName is the file in the guest's own folder that identifies its process.
const IdentityName = "guest.json"

// identity distinguishes a process from every other there ever was on this machine.
type identity struct {
	Pid       int    `json:"pid"`
	Start     uint64 `json:"start"` // in the system's unit: clock ticks since boot, or microseconds
	BootID    string `json:"boot_id"`
	Version   int    `json:"version"` // of the protocol
	Build     string `json:"build"`
	StartedAt int64  `json:"started_at"` // ms UTC
}

// WriteIdentity records the guest's process, so that the server finds it without guessing: pid, start time, boot ID and versions,
// in a new file that replaces the old one.
func WriteIdentity(dir, build string, now time.Time) error {
	self, err := readProc(os.Getpid())
	if err != nil {
		return fmt.Errorf("reading the guest's own start time: %w", err)
	}
	b, err := json.Marshal(identity{Pid: self.pid, Start: self.start, BootID: bootID(), Version: guest.Version, Build: build,
		StartedAt: now.UnixMilli()})
	if err != nil {
		return fmt.Errorf("writing the guest's identity: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, IdentityName), b, 0o600); err != nil {
		return fmt.Errorf("writing the guest's identity: %w", err)
	}
	return nil
}
