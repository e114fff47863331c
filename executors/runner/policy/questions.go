package policy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// Question is a question to the owner, with details that only they see.
type Question struct {
	wire.Question
	Kind      string   `json:"kind"`
	SandboxID string   `json:"sandbox_id,omitempty"`
	User      string   `json:"user,omitempty"`
	Path      string   `json:"path,omitempty"`
	Argv      []string `json:"argv,omitempty"`
	Port      int      `json:"port,omitempty"`
	Until     int64    `json:"until"` // ms UTC: its deadline
}

// Answer is the owner's answer to a Question.
type Answer string

// Answers, as in a Question.
const (
	Yes    Answer = "yes"
	Always Answer = "always" // yes, also to everything else this workspace wants until the runner's program ends
	No     Answer = "no"
	Late   Answer = "late" // nobody answered in time
)

// question is an open one.
type question struct {
	Question
	key    string
	until  time.Time
	done   chan struct{} // closed when answer is set
	answer Answer
	users  int // callers that wait for it
}

const (
	maxQuestions = 64        // open at once: a server cannot flood the owner
	keepGrant    = time.Hour // how long a yes that came after its caller had left is stored for the caller's return
	maxGrants    = 4096
)

// key identifies equal questions: a server that lost its connection asks again.
func key(a Ask) string {
	if a.Kind == KindSandbox {
		return a.Kind + "\x00" + a.SandboxID + "\x00" + a.Path
	}
	if a.Kind == KindPort {
		return a.Kind + "\x00" + a.WorkspaceID + "\x00" + a.SandboxID + "\x00" + strconv.Itoa(a.Port)
	}
	return strings.Join(append([]string{a.Kind, a.WorkspaceID, a.SandboxID, a.Path}, a.Argv...), "\x00")
}

// shared reports whether one answer holds for everybody who asks the same: a sandbox is made once, however often it is requested, and a page
// opens many connections to its port.
func shared(kind string) bool { return kind == KindSandbox || kind == KindPort }

// granted reports whether the owner, or their file, has allowed a within the last hour.
func (k *Keeper) granted(a Ask) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	until, ok := k.grants[key(a)]
	return ok && k.cfg.Now().Before(until)
}

// ask waits for the owner's answer, and returns it.
func (k *Keeper) ask(ctx context.Context, a Ask) (how string, err error) {
	q, answer := k.question(a)
	switch {
	case answer == Always:
		return "always", nil
	case answer == Yes:
		return "yes", nil
	case q == nil:
		return "", fault.New(fault.RateLimited, wire.CodeRefused, "%d questions for the machine's owner are already open. Try again when some are answered.", maxQuestions)
	}
	t := time.NewTimer(q.until.Sub(k.cfg.Now()))
	defer t.Stop()
	select {
	case <-q.done:
	case <-t.C:
		k.settle(q, Late)
	case <-ctx.Done():
		k.mu.Lock()
		q.users-- // it stays: the answer counts when the server asks again
		k.mu.Unlock()
		return "", fault.Wrap(ctx.Err(), fault.Timeout, wire.CodeRefused, "The connection ended before the machine's owner answered.")
	}
	k.mu.Lock()
	answer = q.answer
	k.mu.Unlock()
	switch answer {
	case Yes, Always:
		return string(answer), nil
	case No:
		return "no", fault.New(fault.Forbidden, wire.CodeRefused, "The machine's owner said no.")
	}
	return "late", fault.New(fault.Timeout, wire.CodeRefused, "The machine's owner did not answer within %d minutes. Ask them, and try again.", k.Policy().AnswerMinutes)
}

// question returns the question to wait for, or an existing answer. Neither: too many are open.
func (k *Keeper) question(a Ask) (*question, Answer) {
	now := k.cfg.Now()
	k.mu.Lock()
	if a.WorkspaceID != "" && k.workspaces[a.WorkspaceID] && a.Kind != KindBundle && a.Kind != KindDeliver {
		k.mu.Unlock()
		return nil, Always
	}
	at := key(a)
	if until, ok := k.grants[at]; ok {
		if !shared(a.Kind) {
			delete(k.grants, at)
		}
		if now.Before(until) {
			k.mu.Unlock()
			return nil, Yes
		}
	}
	if i := slices.IndexFunc(k.questions, func(q *question) bool { return q.key == at && (shared(a.Kind) || q.users == 0) }); i >= 0 {
		q := k.questions[i]
		q.users++
		k.mu.Unlock()
		return q, ""
	}
	if len(k.questions) >= maxQuestions {
		k.mu.Unlock()
		return nil, ""
	}
	until := now.Add(time.Duration(k.policy.AnswerMinutes) * time.Minute)
	q := &question{key: at, until: until, done: make(chan struct{}), users: 1, Question: Question{
		Question: wire.Question{ID: shortID(k.questions), WorkspaceID: Clean(a.WorkspaceID, 64), Text: words(a), AskedAt: now.UnixMilli()},
		Kind:     a.Kind, SandboxID: Clean(a.SandboxID, 64), User: Clean(a.Command.User, 100), Path: Clean(a.Path, 1000), Port: a.Port, Until: until.UnixMilli()}}
	for i, arg := range a.Argv {
		if i == 100 {
			q.Argv = append(q.Argv, "...")
			break
		}
		q.Argv = append(q.Argv, Clean(arg, 1000))
	}
	k.questions = append(k.questions, q)
	k.mu.Unlock()
	k.notify(q.Question)
	return q, ""
}

// shortID is a name of a question that is short enough to type.
func shortID(taken []*question) string {
	for {
		long := id.New("q")
		short := long[len(long)-4:]
		if !slices.ContainsFunc(taken, func(q *question) bool { return q.ID == short }) {
			return short
		}
	}
}

// words describes the request for people.
func words(a Ask) string {
	if a.Text != "" {
		return Clean(a.Text, 500)
	}
	var what string
	switch a.Kind {
	case KindSandbox:
		what = "make a sandbox"
		if a.Path != "" {
			what += " that shares objects with " + a.Path
		}
	case KindProcess:
		what = "run " + strings.Join(a.Argv, " ")
	case KindWrite:
		what = "write " + a.Path
	case KindBundle:
		what = "read the repository in " + a.Path
	case KindDeliver:
		what = "put a branch into the repository in " + a.Path
	case KindPort:
		what = "connect to a program of the sandbox at port " + strconv.Itoa(a.Port)
	}
	if a.WorkspaceID != "" {
		what += fmt.Sprintf(" (workspace %s)", a.WorkspaceID)
	}
	return Clean(what, 500)
}

// OnQuestion registers fn, called for each question when it is asked, and again with its Answer. It must not block.
func (k *Keeper) OnQuestion(fn func(Question)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.onQuestion = append(k.onQuestion, fn)
}

func (k *Keeper) notify(q Question) {
	k.mu.Lock()
	fns := slices.Clone(k.onQuestion)
	k.mu.Unlock()
	for _, fn := range fns {
		fn(q)
	}
}

// Questions returns the open ones, the oldest first.
func (k *Keeper) Questions() []Question {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]Question, 0, len(k.questions))
	for _, q := range k.questions {
		out = append(out, q.Question)
	}
	return out
}

// Answer answers a question. Always also answers the workspace's other open questions.
func (k *Keeper) Answer(questionID string, a Answer) error {
	k.mu.Lock()
	i := slices.IndexFunc(k.questions, func(q *question) bool { return q.ID == questionID })
	if i < 0 {
		k.mu.Unlock()
		return fault.New(fault.NotFound, "runner_question_gone", "There is no open question %q: it was answered, or its time is up. See `parawork runner status`.", Clean(questionID, 40))
	}
	q := k.questions[i]
	same := []*question{q}
	if a == Always && q.WorkspaceID != "" {
		k.workspaces[q.WorkspaceID] = true
		for _, other := range k.questions {
			if other != q && other.WorkspaceID == q.WorkspaceID && other.Kind != KindBundle && other.Kind != KindDeliver {
				same = append(same, other)
			}
		}
	}
	k.mu.Unlock()
	for _, q := range same {
		k.settle(q, a)
	}
	return nil
}

// settle ends a question, once.
func (k *Keeper) settle(q *question, a Answer) {
	k.mu.Lock()
	i := slices.Index(k.questions, q)
	if i < 0 {
		k.mu.Unlock()
		return
	}
	k.questions = slices.Delete(k.questions, i, i+1)
	q.answer, q.Answer = a, string(a)
	if a == Always {
		q.Answer = string(Yes)
	}
	if (a == Yes || a == Always) && (q.users == 0 || shared(q.Kind)) {
		k.grant(q.key)
	}
	close(q.done)
	reported := q.Question
	k.mu.Unlock()
	k.notify(reported)
}

// grant stores a yes for a caller that returns. The caller holds k.mu.
func (k *Keeper) grant(at string) {
	now := k.cfg.Now()
	if len(k.grants) >= maxGrants {
		for key, until := range k.grants {
			if !now.Before(until) {
				delete(k.grants, key)
			}
		}
	}
	if len(k.grants) < maxGrants {
		k.grants[at] = now.Add(keepGrant)
	}
}

// endQuestions ends those that which selects, without an answer.
func (k *Keeper) endQuestions(which func(*question) bool) {
	k.mu.Lock()
	var end []*question
	for _, q := range k.questions {
		if which(q) {
			end = append(end, q)
		}
	}
	k.mu.Unlock()
	for _, q := range end {
		k.settle(q, Late)
	}
}
