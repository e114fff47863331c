package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/store"
)

// audit checks the chains of the audit, and a file that was exported when there is one.
func (r *report) audit(ctx context.Context, cfg *config.Config, st store.State, file string) {
	if st.Missing || st.Empty || st.Problem != nil || st.Applied < st.Known {
		r.say(bad, "audit", "there is no database with an audit of this version", "Start the server once, then check again.")
		return
	}
	if _, err := os.Stat(filepath.Join(cfg.DataDir, "secret.key")); err != nil {
		r.say(bad, "audit", err.Error(), "Without secret.key the seals cannot be checked: restore it from a backup.")
		return
	}
	in, done, err := instance.Open(ctx, cfg)
	if err != nil {
		r.say(bad, "audit", err.Error(), "")
		return
	}
	defer done()
	if file != "" {
		r.auditFile(ctx, in, file)
		return
	}
	reports, known, err := in.Audit.Verify(ctx)
	if err != nil {
		r.say(bad, "audit", err.Error(), "")
		return
	}
	total := int64(0)
	for _, c := range reports {
		total += c.Entries
		r.chain("audit", in.ChainName(ctx, c.Chain), c)
	}
	if total == 0 {
		r.say(good, "audit", "no entries yet", "")
	} else if !known {
		r.say(minor, "audit", instance.HeadsFile(cfg.DataDir)+" is missing: it cannot be verified whether the newest entries were cut off", "The server makes it anew with the next entry.")
	}
}

// reserve says whether entries of the audit wait for room in the database, and whether they could.
func (r *report) reserve(dataDir string) {
	path := instance.ReserveFile(dataDir)
	s, err := audit.LookAtReserve(path)
	if err != nil {
		r.say(minor, "audit", fmt.Sprintf("%s cannot be used: %v; while the database is full, entries are lost", path, err),
			"Give it to the server's user or, when it is not the server's file, move it away: the server makes it again within a minute.")
	}
	const room = "Make room on the disk of the database. A server that runs stores the entries within a minute."
	if s.Held > 0 {
		r.say(minor, "audit", fmt.Sprintf("%s in %s for room in the database", waits(s.Held), path), room)
	}
	if s.Lost > 0 {
		r.say(minor, "audit", fmt.Sprintf("%s lost: neither the database nor %s had room", entries(s.Lost), path), room)
	}
	if s.Aside != "" {
		r.say(minor, "audit", s.Aside+" holds records of the audit that could not be used", "Find out who could write to the data folder, keep the file elsewhere as evidence, then remove it: docs/audit.md")
	}
}

func waits(n int) string {
	if n == 1 {
		return "1 entry waits"
	}
	return fmt.Sprintf("%d entries wait", n)
}

func (r *report) auditFile(ctx context.Context, in *instance.Instance, file string) {
	f, err := os.Open(file)
	if err != nil {
		r.say(bad, "audit file", err.Error(), "")
		return
	}
	defer f.Close()
	c, err := in.Audit.VerifyExport(ctx, f)
	if err != nil {
		r.say(bad, "audit file", err.Error(), "Export it anew, in JSON.")
		return
	}
	r.chain("audit file", in.ChainName(ctx, c.Chain), c)
}

// chain says what was found of one chain.
func (r *report) chain(what, name string, c audit.Report) {
	if len(c.Findings) == 0 {
		if c.Unproven > 0 && c.First <= c.Unproven {
			r.say(minor, what, fmt.Sprintf("%s: %s, numbers %d to %d; those up to %d were sealed with a key that was lost and cannot be checked; after them nothing changed, removed or put in between",
				name, entries(c.Entries), c.First, c.Last, c.Unproven), "")
			return
		}
		r.say(good, what, fmt.Sprintf("%s: %s, numbers %d to %d, nothing changed, removed or put in between", name, entries(c.Entries), c.First, c.Last), "")
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s:", name)
	for _, f := range c.Findings {
		if f.Seq == 0 {
			fmt.Fprintf(&b, "\n%s", f.What)
		} else {
			fmt.Fprintf(&b, "\nentry %d: %s", f.Seq, f.What)
		}
	}
	if c.More > 0 {
		fmt.Fprintf(&b, "\nand %d more", c.More)
	}
	r.say(bad, what, b.String(), "Keep a copy of the database and of audit.heads as evidence, and find out who could write to them: docs/audit.md")
}

func entries(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}
