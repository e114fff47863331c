package proxycopy_test

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/internal/proxycopy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is a connection of network "tcp" or "unix", both ends.
func pair(t testing.TB, network string) (a, b proxycopy.Conn) {
	t.Helper()
	at := "127.0.0.1:0"
	if network == "unix" {
		at = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	x, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	y, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close(); y.Close() })
	return x.(proxycopy.Conn), y.(proxycopy.Conn)
}

// joined is a program and a host with Both between them.
func joined(t testing.TB, o proxycopy.Options) (near, far proxycopy.Conn, done <-chan struct{}) {
	near, in := pair(t, "unix")
	out, far := pair(t, "tcp")
	ended := make(chan struct{})
	go func() { defer close(ended); proxycopy.Both(in, out, o) }()
	t.Cleanup(func() { near.Close(); far.Close(); <-ended })
	return near, far, ended
}

func TestBothWaysAtOnce(t *testing.T) {
	near, far, done := joined(t, proxycopy.Options{Idle: time.Minute})
	sent := make([]byte, 8<<20)
	_, _ = rand.Read(sent)
	var wg sync.WaitGroup
	for _, p := range [][2]proxycopy.Conn{{near, far}, {far, near}} {
		wg.Go(func() {
			if _, err := p[0].Write(sent); err != nil {
				t.Error(err)
			}
			_ = p[0].CloseWrite()
		})
		wg.Go(func() {
			if got, err := io.ReadAll(p[1]); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d bytes arrived of %d: %v", len(got), len(sent), err)
			}
		})
	}
	wg.Wait()
	<-done
}

func TestTheOtherDirectionGoesOn(t *testing.T) {
	near, far, done := joined(t, proxycopy.Options{})
	_, _ = io.WriteString(near, "question")
	_ = near.CloseWrite()
	if q, err := io.ReadAll(far); err != nil || string(q) != "question" {
		t.Fatalf("%q, %v", q, err)
	}
	select {
	case <-done:
		t.Fatal("the pair ended with one direction")
	default:
	}
	_, _ = io.WriteString(far, "answer")
	_ = far.CloseWrite()
	if a, err := io.ReadAll(near); err != nil || string(a) != "answer" {
		t.Fatalf("%q, %v", a, err)
	}
	<-done
}

func TestAStalledCopyEnds(t *testing.T) {
	near, far, done := joined(t, proxycopy.Options{Idle: 150 * time.Millisecond})
	for range 6 { // less than Idle each, more together
		time.Sleep(50 * time.Millisecond) // time is what this is about
		if _, err := far.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := near.Read(make([]byte, 1)); err != nil {
			t.Fatalf("a pair that moves was ended: %v", err)
		}
	}
	<-done
	if _, err := near.Read(make([]byte, 1)); err == nil {
		t.Error("the program does not notice")
	}
}

// A reader that takes nothing holds the pair no longer than one that says nothing.
func TestAReaderThatStallsEndsIt(t *testing.T) {
	near, _, done := joined(t, proxycopy.Options{Idle: 100 * time.Millisecond})
	go func() { _, _ = near.Write(make([]byte, 64<<20)) }() // ends with near
	<-done
}

func TestHalfAnEndIsWaitedForLessLong(t *testing.T) {
	near, _, done := joined(t, proxycopy.Options{Idle: time.Hour, HalfIdle: 50 * time.Millisecond})
	_ = near.CloseWrite()
	<-done
}

func TestWithoutDescriptors(t *testing.T) {
	near, in := pair(t, "unix")
	out, far := pair(t, "tcp")
	done := make(chan struct{})
	go func() { defer close(done); proxycopy.Both(in, plain{out}, proxycopy.Options{}) }()
	_, _ = io.WriteString(far, "hello")
	_ = far.CloseWrite()
	if got, err := io.ReadAll(near); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	near.Close()
	<-done
}

// plain hides all but the methods of Conn.
type plain struct{ proxycopy.Conn }

func BenchmarkBoth(b *testing.B) {
	near, far, _ := joined(b, proxycopy.Options{Idle: time.Minute})
	buf := make([]byte, 256<<10)
	b.SetBytes(int64(len(buf)))
	go func() {
		for range b.N {
			if _, err := far.Write(buf); err != nil {
				return
			}
		}
		_ = far.CloseWrite()
	}()
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{near}, make([]byte, 256<<10)); err != nil {
		b.Fatal(err)
	}
}
