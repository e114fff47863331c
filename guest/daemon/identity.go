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

// IdentityName is the file in the guest's own folder that says which process it is.
const IdentityName = "guest.json"

// identity tells one process from every other there ever was on this machine.
type identity struct {
	Pid       int    `json:"pid"`
	Start     uint64 `json:"start"` // as the system counts: clock ticks since boot, or microseconds
	BootID    string `json:"boot_id"`
	Version   int    `json:"version"` // of the protocol
	Build     string `json:"build"`
	StartedAt int64  `json:"started_at"` // ms UTC
}

// WriteIdentity writes down which process this is, so that it is found again and not guessed: pid, start time, boot id and
// versions, in a new file that takes the old one's place.
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
