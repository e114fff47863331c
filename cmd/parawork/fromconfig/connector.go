package fromconfig

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/id"
)

// ConnectorName is what this program is called when ssh or git use it as their way out.
const ConnectorName = "parawork-connect"

// LinkConnector makes a link to this program by that name, since git's setting holds a path and no arguments.
func LinkConnector(dataDir string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	dir := filepath.Join(dataDir, "ssh")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making a folder for ssh: %w", err)
	}
	at := filepath.Join(dir, ConnectorName)
	if there, err := os.Readlink(at); err == nil && there == self {
		return at, nil
	}
	tmp := filepath.Join(dir, id.New("link"))
	if err := os.Symlink(self, tmp); err != nil {
		return "", fmt.Errorf("linking this program as ssh's way out: %w", err)
	}
	if err := os.Rename(tmp, at); err != nil {
		return "", fmt.Errorf("linking this program as ssh's way out: %w", err)
	}
	return at, nil
}

// Exceptions are the networks that the server itself may reach at people's word.
func Exceptions(o config.Outgoing) []egress.Exception {
	var out []egress.Exception
	for _, n := range o.Networks() {
		out = append(out, egress.Exception{Prefix: n})
	}
	return out
}
