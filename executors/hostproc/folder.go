//go:build linux || darwin

package hostproc

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/fault"
)

// Files of a sandbox's folder.
const (
	TokenName  = "token"      // the guest's secret, readable by the owner only
	RecordName = "guest.json" // identifies the guest process
	OutputName = "guest.log"  // the guest's own output
	KindName   = "kind"       // the executor's kind
)

// maxSmall limits the small files of a sandbox's folder.
const maxSmall = 64 << 10

// CheckID rejects ids that are not one plain path element: the id names a folder.
func CheckID(id string) error {
	if id == "" || len(id) > 64 {
		return fault.New(fault.Invalid, "invalid_sandbox_id", "The sandbox id must have 1 to 64 characters.")
	}
	for _, r := range id {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-') {
			return fault.New(fault.Invalid, "invalid_sandbox_id", "The sandbox id %q has characters other than letters, digits, _ and -.", id)
		}
	}
	return nil
}

// MakeFolder makes the folder of a sandbox, accessible to the server only, and marks it with kind.
func MakeFolder(parent, id string, kind executors.Kind) (string, error) {
	dir := filepath.Join(parent, id)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, KindName), []byte(kind), 0o600)
}

// Folders returns the ids of the sandboxes of kind that have a folder below parent. A folder without a mark counts as unmarked's: its maker
// died before anything ran in it, or was a server that set no marks.
func Folders(parent string, kind, unmarked executors.Kind) ([]string, error) {
	entries, err := os.ReadDir(parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	var out []string
	for _, entry := range entries {
		if !entry.IsDir() || CheckID(entry.Name()) != nil {
			continue
		}
		whose := unmarked
		if b, err := ReadSmall(filepath.Join(parent, entry.Name(), KindName)); err == nil {
			whose = executors.Kind(b)
		}
		if whose == kind {
			out = append(out, entry.Name())
		}
	}
	return out, nil
}

// MakeToken makes the guest's secret and stores it in the folder.
func MakeToken(dir string, rand io.Reader) (string, error) {
	var raw [32]byte
	if _, err := io.ReadFull(rand, raw[:]); err != nil {
		return "", fmt.Errorf("making a token: %w", err)
	}
	token := hex.EncodeToString(raw[:])
	return token, os.WriteFile(filepath.Join(dir, TokenName), []byte(token), 0o600)
}

// ReadToken reads the token.
func ReadToken(dir string) (string, error) {
	b, err := ReadSmall(filepath.Join(dir, TokenName))
	return strings.TrimSpace(string(b)), err
}

// WriteRecord stores the identity of the guest process, atomically.
func WriteRecord(dir string, record any) error {
	b, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, RecordName), b, 0o600)
}

// ReadRecord reads the record.
func ReadRecord(dir string, record any) error {
	b, err := ReadSmall(filepath.Join(dir, RecordName))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, record)
}

// Unreadable reports whether reading a file failed for a temporary reason that says nothing about the file, such as too many open files: the
// file is neither missing nor wrong.
func Unreadable(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP)
}

// OpenOutput opens the file for the guest's own output.
func OpenOutput(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, OutputName), os.O_CREATE|os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
}

// Tail returns the end of the guest's output, for a person.
func Tail(dir string) string {
	b, err := ReadSmall(filepath.Join(dir, OutputName))
	if err != nil || len(b) == 0 {
		return "it printed nothing"
	}
	if len(b) > 500 {
		b = b[len(b)-500:]
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(b), "?"))
}

// ReadSmall reads a small regular file of a folder an agent may write to: it rejects links, FIFOs and large files.
func ReadSmall(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", filepath.Base(path))
	}
	return io.ReadAll(io.LimitReader(f, maxSmall))
}

// RemoveFolder removes a sandbox's folder, also where a process in it has removed the server's access rights. Nothing of the sandbox runs
// any more.
func RemoveFolder(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() { // called before it is read
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
