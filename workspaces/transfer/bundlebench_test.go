package transfer_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

// line is an executor whose pipes carry so many bytes a second to the sandbox, as one over a network does.
type line struct {
	*fake.Executor
	rate float64 // bytes a second
}

func (l line) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	sb, err := l.Executor.Create(ctx, s)
	return lineSandbox{sb, l}, err
}

func (l line) Recover(ctx context.Context, h executors.Handle) (executors.Sandbox, error) {
	sb, err := l.Executor.Recover(ctx, h)
	return lineSandbox{sb, l}, err
}

type lineSandbox struct {
	executors.Sandbox
	l line
}

func (s lineSandbox) OnePipe() bool { return true }

func (s lineSandbox) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	p, err := s.Sandbox.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &lineConn{Conn: p.(net.Conn), rate: s.l.rate}, nil
}

type lineConn struct {
	net.Conn
	rate float64
	free time.Time // when the line is free again
}

// Write sends p as fast as the line is. It is called by one goroutine at a time.
func (c *lineConn) Write(p []byte) (int, error) {
	if now := time.Now(); c.free.Before(now) {
		c.free = now
	}
	c.free = c.free.Add(time.Duration(float64(len(p)) / c.rate * float64(time.Second)))
	if d := time.Until(c.free); d > time.Millisecond {
		time.Sleep(d)
	}
	return c.Conn.Write(p)
}

// overLine is how long bare bytes take over such a line.
func overLine(b *testing.B, rate float64, size int64) time.Duration {
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); _, _ = io.Copy(io.Discard, there) }()
	at := time.Now()
	_, err := io.CopyBuffer(struct{ io.Writer }{&lineConn{Conn: here, rate: rate}}, struct{ io.Reader }{io.LimitReader(zeros{}, size)}, make([]byte, 32<<10))
	wstest.Must(b, err)
	_ = here.Close()
	<-done
	return time.Since(at)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// BenchmarkArrive transfers a repository of 10,000 files to a sandbox behind a line of 32 MiB a second. send_vs_raw is the throughput of
// the step that sends, packing left out, as a ratio of the line's; arrive_vs_raw is that of everything from the first look at the
// repository to the last file written, against the time the bare line takes for the bundle.
func BenchmarkArrive(b *testing.B) {
	const rate = 32 << 20
	h, a := wstest.RemoteEnv(b, func(e executors.Executor) executors.Executor { return line{e.(*fake.Executor), rate} })
	dir := h.Repo("big")
	var bytes int64
	for i := range 10_000 {
		text := fmt.Sprintf("file %d\n", i)
		for k := range 60 {
			text += fmt.Sprintf("line %d: %x\n", k, sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(k)}))
		}
		bytes += int64(len(text))
		wstest.Write(b, dir, fmt.Sprintf("d%02d/s%d/file-%05d.txt", i%100, i%7, i), text)
	}
	wstest.CommitAll(b, dir, "big")
	wstest.Git(b, dir, "repack", "-adq")
	p := h.PathProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "w"})
	var send, all, pack, checkout, bare time.Duration
	var size, n int64
	for b.Loop() {
		a.End(w)
		n++
		at := time.Now()
		var began, sent time.Time
		a.Reported = func(step string, done, of int64) {
			switch {
			case step == executors.StepSend && of > 0 && began.IsZero():
				began = time.Now()
			case step == executors.StepSend && of > 0 && done == of:
				size, sent = of, time.Now()
			}
		}
		wstest.Must(b, a.Ensure(context.Background(), w.ID))
		all += time.Since(at)
		pack += began.Sub(at)
		send += sent.Sub(began)
		checkout += time.Since(sent)
		bare += overLine(b, rate, size)
	}
	b.ReportMetric(bare.Seconds()/send.Seconds(), "send_vs_raw")
	b.ReportMetric(bare.Seconds()/all.Seconds(), "arrive_vs_raw")
	b.ReportMetric(float64(size)/(1<<20), "bundle-MB")
	b.ReportMetric(float64(bytes)/(1<<20), "files-MB")
	for name, d := range map[string]time.Duration{"pack-ms": pack, "send-ms": send, "checkout-ms": checkout} {
		b.ReportMetric(float64(d.Milliseconds())/float64(n), name)
	}
}
