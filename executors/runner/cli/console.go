package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/executors/runner/policy"
)

// console is the terminal the program runs in: it prints what happens, shows questions and reads answers.
type console struct {
	out      io.Writer
	terminal bool
	now      func() time.Time
	keeper   *policy.Keeper

	mu    sync.Mutex
	first string // the question that was shown last: a bare y or n answers it
}

func (d *console) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, "%s  %s\n", d.now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// question shows a question, or what became of it.
func (d *console) question(q policy.Question) {
	switch {
	case q.Answer == string(policy.Late):
		d.say("Too late: %s. Counted as no.", q.Text)
	case q.Answer != "":
		d.say("%s: %s.", map[string]string{string(policy.Yes): "Allowed", string(policy.No): "Denied"}[q.Answer], q.Text)
	default:
		who := cmp.Or(q.User, "The server")
		until := time.UnixMilli(q.Until).In(d.now().Location()).Format("15:04")
		d.mu.Lock()
		d.first = q.ID
		d.mu.Unlock()
		if d.terminal {
			d.say("QUESTION %s  %s wants to: %s\n          y = yes, n = no, a = yes to all of this workspace (until %s; with several: y %s)", q.ID, who, q.Text, until, q.ID)
			return
		}
		d.say("QUESTION %s  %s wants to: %s\n          answer until %s with: parawork runner allow %s, or deny %s", q.ID, who, q.Text, until, q.ID, q.ID)
	}
}

// listen reads answers until in ends. Nobody waits for it: a read from a terminal cannot be cancelled.
func (d *console) listen(ctx context.Context, in io.Reader) {
	s := bufio.NewScanner(in)
	for s.Scan() && ctx.Err() == nil {
		d.line(s.Text())
	}
}

// line handles a typed line.
func (d *console) line(text string) {
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 {
		return
	}
	a, ok := map[string]policy.Answer{"y": policy.Yes, "yes": policy.Yes, "n": policy.No, "no": policy.No, "a": policy.Always, "all": policy.Always, "always": policy.Always}[words[0]]
	if !ok {
		d.say("Type y, n or a to answer a question; Ctrl-C goes offline.")
		return
	}
	waiting := d.keeper.Questions()
	d.mu.Lock()
	id := d.first
	d.mu.Unlock()
	switch {
	case len(words) > 1:
		id = words[1]
	case len(waiting) == 1:
		id = waiting[0].ID
	case len(waiting) > 1: // with several open, one must be named: the screen may have changed while somebody typed
		var ids []string
		for _, q := range waiting {
			ids = append(ids, q.ID)
		}
		d.say("Several questions are open. Say which one: %s %s", words[0], strings.Join(ids, " | "))
		return
	}
	if err := d.keeper.Answer(id, a); err != nil {
		d.say("%v", err)
	}
}
