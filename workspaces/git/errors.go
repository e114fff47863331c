package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// CommandError is a git call in the sandbox that did not exit with 0.
type CommandError struct {
	Sub    string
	Result executors.SandboxResult
}

func (e *CommandError) Error() string {
	if e.Result.Signal != "" {
		return fmt.Sprintf("git %s was ended by %s", e.Sub, e.Result.Signal)
	}
	return fmt.Sprintf("git %s: exit %d: %s", e.Sub, e.Result.ExitCode, e.Words())
}

// Words is git's standard error output, cleaned.
func (e *CommandError) Words() string { return hostgit.Words(string(e.Result.Stderr)) }

// GitFault turns a failed git call into an error for users: what was tried, git's own message, what to do.
func GitFault(err error, kind fault.Kind, code, doing string) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	g, ok := errors.AsType[*hostgit.Error](err)
	if DiskIsFull(err) {
		return fault.Wrap(err, fault.DiskFull, "disk_full", "%s failed: the server's disk is full. Free some space, then try again.", doing)
	}
	if !ok {
		return fault.Wrap(err, kind, code, "%s failed.", doing)
	}
	words := g.Words()
	refused, inside := errors.AsType[*hostgit.RefusedError](err)
	switch {
	case inside:
		return fault.Wrap(err, fault.Invalid, "url_not_public", "%s failed: %s is inside a network this server does not reach out to. An operator can allow it with outgoing.allow.", doing, hostgit.Clean(refused.Host))
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(err, fault.Timeout, code+"_timeout", "%s took too long and was stopped. %s", doing, words)
	case errors.Is(err, context.Canceled), errors.Is(err, workspaces.ErrCancelled), errors.Is(err, workspaces.ErrShutdown):
		return err
	case errors.Is(err, hostgit.ErrTooMuch):
		return fault.Wrap(err, fault.TooLarge, code+"_too_large", "%s gave more output than Parawork reads.", doing)
	}
	words = cmp.Or(words, "git gave no reason")
	return fault.Wrap(err, kind, code, "%s failed: %s%s", doing, words, cure(words))
}

// cures are what to do about git's most common errors about remotes.
var cures = [...]struct{ words, cure string }{
	{"could not read Username", "The repository is private or does not exist. Add a git credential for its host to the secrets of the project or the team (or, for a new project, put it into the URL), or use an ssh URL."},
	{"could not read Password", "The repository is private. Add a git credential for its host to the secrets of the project or the team, or use an ssh URL."},
	{"Authentication failed", "The credential was not accepted. Replace its token in the secrets of the project or the team."},
	{"Permission denied (publickey", "Add the server user's public ssh key to the git host, or use an https URL with a token."},
	{"Host key verification failed", "The host's key is not the one known for it. Check known_hosts on the server."},
	{"Could not resolve host", "Check the host's name and the server's network."},
	{"transport '", "An operator decides which protocols are allowed."},
	{"dubious ownership", "The folder belongs to another user of the server: run Parawork as its owner, or change the owner."},
}

func cure(words string) string {
	for _, c := range cures {
		if strings.Contains(words, c.words) {
			return "\n" + c.cure
		}
	}
	return ""
}

// Reason is the text of a failed row for people.
func Reason(err error) string {
	switch {
	case errors.Is(err, workspaces.ErrCancelled):
		return "Cancelled."
	case errors.Is(err, workspaces.ErrShutdown):
		return "The server was stopped in the middle of it. Try again."
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Message
	}
	if g, ok := errors.AsType[*hostgit.Error](err); ok {
		return g.Error()
	}
	return hostgit.Clean(err.Error())
}

// DiskFault turns a file system error into one for users.
func DiskFault(err error, doing string) error {
	switch {
	case err == nil:
		return nil
	case DiskIsFull(err):
		return fault.Wrap(err, fault.DiskFull, "disk_full", "%s failed: the server's disk is full. Free some space, then try again.", doing)
	}
	return fault.Wrap(err, fault.Unavailable, "disk_failed", "%s failed.", doing)
}

// DiskIsFull reports whether an error means a full disk: the system's own error, or git's message about one.
func DiskIsFull(err error) bool {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || fault.Is(err, fault.DiskFull) {
		return true
	}
	if g, ok := errors.AsType[*hostgit.Error](err); ok {
		return saysFull(g.Words()) || refNotWritten(g.Words())
	}
	e, ok := errors.AsType[*CommandError](err)
	return ok && saysFull(e.Words())
}

// saysFull recognizes git's messages about a full disk: the system's, and those of csum-file.c.
func saysFull(words string) bool {
	for _, full := range [...]string{"No space left on device", "Out of diskspace", "Disk quota exceeded"} {
		if strings.Contains(words, full) {
			return true
		}
	}
	return false
}

// unwritten is what git says of a ref whose lock file it made and could not write. It leaves out why.
var unwritten = regexp.MustCompile(`couldn't write '([^']+)\.lock'`)

// refNotWritten reports whether git could not write a ref on the host and the disk is full there.
func refNotWritten(words string) bool {
	lock := unwritten.FindStringSubmatch(words)
	if lock == nil {
		return false
	}
	dir := filepath.Dir(lock[1])
	for !FolderExists(dir) && dir != filepath.Dir(dir) { // git removed the empty folders
		dir = filepath.Dir(dir)
	}
	return NearlyFull(dir)
}

// ExitCode returns the exit code of a git call in the sandbox, -1 when it was killed.
func ExitCode(err error) int {
	if e, ok := errors.AsType[*CommandError](err); ok && e.Result.Signal == "" {
		return e.Result.ExitCode
	}
	return -1
}

// SandboxFault is GitFault for calls in the sandbox.
func SandboxFault(err error, code, doing string) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*CommandError](err)
	if !ok {
		return err // a guest's error needs no further words
	}
	words := e.Words()
	if saysFull(words) {
		return fault.Wrap(err, fault.DiskFull, "disk_full", "%s failed: the disk is full. Free some space, then try again.", doing)
	}
	if words == "" {
		words = e.Error()
	}
	return fault.Wrap(err, fault.Conflict, code, "%s failed: %s", doing, words)
}
