package executors

import (
	"fmt"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// CheckHello rejects the guest of another sandbox (ErrGone: ours does not exist) and one that speaks a protocol version this host does not.
func CheckHello(h guest.Hello, sandboxID string) error {
	if h.SandboxID != sandboxID {
		return fmt.Errorf("another sandbox's guest answers in place of %s: %w", sandboxID, ErrGone)
	}
	if h.Version > guest.Version || h.Version < guest.Version-1 || h.Version < 1 {
		return fault.New(fault.Unsupported, "guest_version",
			"The sandbox speaks protocol version %d and this server %d. Destroy the sandbox to get a new one.",
			h.Version, guest.Version)
	}
	return nil
}
