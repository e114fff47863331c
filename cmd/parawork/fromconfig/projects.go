package fromconfig

import (
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// ProtocolsOf are those by which projects are cloned.
func ProtocolsOf(c config.Projects) []string {
	out := []string{"https", "ssh"}
	if c.AllowGitURLs {
		out = append(out, "git")
	}
	if c.AllowFileURLs {
		out = append(out, "file")
	}
	return out
}

// Days is so long.
func Days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

// SnapshotsKept says how long snapshots are kept.
func SnapshotsKept(c config.Snapshots) func() snapshot.Retention {
	return func() snapshot.Retention {
		return snapshot.Retention{Polls: Days(c.PollDays), Others: Days(c.KeepDays)}
	}
}
