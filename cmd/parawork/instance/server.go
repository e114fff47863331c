package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/id"
)

var serverID = regexp.MustCompile(`^srv_[0-9A-Za-z]{8,64}$`)

// ServerID returns the name of the server of a data folder: the same after each start, and another for each server that shares a
// database. The caller holds the folder's lock. Whoever copies the folder for a second server leaves the file out.
func ServerID(dataDir string) (string, error) {
	path := filepath.Join(dataDir, "server.id")
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the server's name: %w", err)
	}
	if name := strings.TrimSpace(string(b)); serverID.MatchString(name) {
		return name, nil
	}
	name := id.New("srv")
	if err := atomicfile.WriteDurable(path, []byte(name+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("storing the server's name: %w", err)
	}
	return name, nil
}
