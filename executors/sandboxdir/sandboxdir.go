// Package sandboxdir keeps on this machine what a server must know of sandboxes elsewhere: a folder for each, with the executor's kind, the
// guest's token, a record and the environment of its processes. Nothing in a sandbox sees it. Executors whose sandboxes are processes of this
// machine have folders that agents can write to: see executors/hostproc.
package sandboxdir

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

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/fault"
)

// Files of a sandbox's folder.
const (
	kindName  = "kind"
	tokenName = "token"
	envName   = "env" // for a guest that is started again
	// most bounds a file, in bytes.
	most = 2 << 20
)

// Dir holds the folders of an executor's sandboxes beside those of others. R is the record of a sandbox: a struct that JSON can hold. Calls for
// different sandboxes may run at the same time; those for one take turns.
type Dir[R any] struct {
	Path   string // absolute
	Kind   executors.Kind
	Record string    // the name of the record's file
	Rand   io.Reader // of tokens and names
}

// CheckID refuses ids that are not one plain path element: the id names a folder.
func CheckID(id string) error {
	if !Plain(id) || len(id) > 64 {
		return fault.New(fault.Invalid, "invalid_sandbox_id", "The sandbox id must have 1 to 64 letters, digits, dashes and underscores.")
	}
	return nil
}

// Plain reports whether s is a name of 1 to 100 letters, digits, dashes and underscores, as ids of sandboxes here and elsewhere are.
func Plain(s string) bool {
	return s != "" && len(s) <= 100 && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}) < 0
}

func (d Dir[R]) of(id, name string) string { return filepath.Join(d.Path, id, name) }

// Make makes the folder of a sandbox. One that is there already is an error.
func (d Dir[R]) Make(id string) error {
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(d.Path, id), 0o700); err != nil {
		return err
	}
	return os.WriteFile(d.of(id, kindName), []byte(d.Kind), 0o600)
}

// Rename gives a sandbox's folder to another id, which has none.
func (d Dir[R]) Rename(id, to string) error {
	return os.Rename(filepath.Join(d.Path, id), filepath.Join(d.Path, to))
}

// Remove removes a sandbox's folder, unless it is another kind's. Idempotent.
func (d Dir[R]) Remove(id string) error {
	if b, err := read(d.of(id, kindName)); err == nil && string(b) != string(d.Kind) {
		return nil
	}
	if err := os.RemoveAll(filepath.Join(d.Path, id)); err != nil {
		return fmt.Errorf("removing the folder of sandbox %s: %w", id, err)
	}
	return nil
}

// IDs returns the sandboxes of this kind that have a folder.
func (d Dir[R]) IDs() ([]string, error) {
	entries, err := os.ReadDir(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
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
		if b, err := read(d.of(entry.Name(), kindName)); err == nil && string(b) == string(d.Kind) {
			out = append(out, entry.Name())
		}
	}
	return out, nil
}

// MakeToken makes the guest's secret and keeps it.
func (d Dir[R]) MakeToken(id string) (string, error) {
	token, err := d.Random(32)
	if err != nil {
		return "", err
	}
	return token, atomicfile.WriteDurable(d.of(id, tokenName), []byte(token), 0o600)
}

// Token returns the guest's secret; fs.ErrNotExist when it was lost.
func (d Dir[R]) Token(id string) (string, error) {
	b, err := read(d.of(id, tokenName))
	token := strings.TrimSpace(string(b))
	if err == nil && token == "" {
		err = fs.ErrNotExist
	}
	return token, err
}

// Write keeps the record of a sandbox, atomically and durably.
func (d Dir[R]) Write(id string, record R) error {
	b, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return atomicfile.WriteDurable(d.of(id, d.Record), b, 0o600)
}

// Read returns the record of a sandbox; fs.ErrNotExist when there is none of this kind.
func (d Dir[R]) Read(id string) (record R, err error) {
	kind, err := read(d.of(id, kindName))
	if err == nil && string(kind) != string(d.Kind) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return record, err
	}
	b, err := read(d.of(id, d.Record))
	if err != nil {
		return record, err
	}
	return record, json.Unmarshal(b, &record)
}

// WriteEnv keeps the environment of a sandbox's processes, for a guest that is started again.
func (d Dir[R]) WriteEnv(id string, env []string) error {
	b, err := json.Marshal(env)
	if err != nil {
		return err
	}
	return atomicfile.WriteDurable(d.of(id, envName), b, 0o600)
}

// Env returns what WriteEnv kept, nil when there is nothing.
func (d Dir[R]) Env(id string) (env []string, err error) {
	b, err := read(d.of(id, envName))
	if err != nil {
		return nil, nil
	}
	if err := json.Unmarshal(b, &env); err != nil {
		return nil, fmt.Errorf("reading what sandbox %s gives to its processes: %w", id, err)
	}
	return env, nil
}

// Instance returns the name that distinguishes this installation's sandboxes from those of others at the same place, and makes it at first use
// of so many random bytes, in hex. The file is in the folder of all sandboxes.
func (d Dir[R]) Instance(file string, bytes int) (string, error) {
	path := filepath.Join(d.Path, file)
	b, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		var name string
		if name, err = d.Random(bytes); err == nil {
			b = []byte(name)
			if err = os.MkdirAll(d.Path, 0o700); err == nil {
				err = atomicfile.WriteDurable(path, b, 0o600)
			}
		}
	}
	if err != nil {
		return "", fmt.Errorf("naming this instance: %w", err)
	}
	name := strings.TrimSpace(string(b))
	if _, err := hex.DecodeString(name); err != nil || name == "" {
		return "", fmt.Errorf("naming this instance: %s holds no name; remove it", path)
	}
	return name, nil
}

// Random returns so many random bytes in hex.
func (d Dir[R]) Random(bytes int) (string, error) {
	b := make([]byte, bytes)
	if _, err := io.ReadFull(d.Rand, b); err != nil {
		return "", fmt.Errorf("making a random name: %w", err)
	}
	return hex.EncodeToString(b), nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}
