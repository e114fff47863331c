package wire

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// A machine that lost its power may have lost the journal's last lines: what was signed before it started again is refused, whatever
// the journal says, and stays refused for its next programs.
func TestNothingOfBeforeTheMachineStartedIsObeyed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seen")
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	open := func(boot string, booted, at time.Time) *Seen {
		t.Helper()
		s, err := openSeen(path, func() time.Time { return at }, boot, booted)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	command := func(at time.Time) Command {
		return Command{ID: "command-" + at.Format(time.RFC3339Nano), At: at.UnixMilli(), Until: at.Add(time.Minute).UnixMilli()}
	}
	if err := open("a", noon.Add(-time.Hour), noon).Take(command(noon.Add(-time.Second))); err != nil {
		t.Fatal(err)
	}
	booted := noon.Add(20 * time.Second)
	for _, boot := range []string{"b", "b", bootUnknown} {
		s := open(boot, booted, noon.Add(30*time.Second))
		if err := s.Take(command(noon.Add(10 * time.Second))); fault.CodeOf(err) != CodeReplayed {
			t.Errorf("boot %s: a command of before: %v", boot, err)
		}
	}
	if err := open("b", booted, noon.Add(30*time.Second)).Take(command(noon.Add(25 * time.Second))); err != nil {
		t.Errorf("a command of after: %v", err)
	}
}

func TestWhatCannotBeWrittenDownIsNotObeyed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seen")
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s, err := openSeen(path, func() time.Time { return now }, "a", now.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_ = s.file.Close() // as a disk that is full: every write fails
	c := Command{ID: "command-of-this-noon-1", At: now.UnixMilli(), Until: now.Add(time.Minute).UnixMilli()}
	if err := s.Take(c); !fault.Is(err, fault.DiskFull) {
		t.Fatalf("got %v", err)
	}
	if err := s.Take(c); err != nil { // there is room again: the journal is written anew, for its last line may be half a line
		t.Errorf("got %v", err)
	}
}
