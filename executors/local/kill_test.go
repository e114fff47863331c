//go:build linux

package local_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/local"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/id"
)

func start(t *testing.T, c *client.Client, line string) guest.Process {
	t.Helper()
	p, err := c.Start(t.Context(), guest.ProcessSpec{ID: id.New("p"), Argv: []string{"/bin/sh", "-c", line}, Tty: true,
		Size: guest.Size{Cols: 80, Rows: 24}})
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	return p
}

func readPid(t *testing.T, path string) int {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		b, _ := os.ReadFile(path)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && bytes.HasSuffix(b, []byte("\n")) {
			return pid
		}
		if time.Now().After(deadline) {
			t.Fatalf("no pid in %s: %q", path, b)
		}
		time.Sleep(10 * time.Millisecond) // a file does not tell when it is written
	}
}

// serverLines is how many lines the little server's process prints.
const serverLines = 200_000

// littleServer is a server that is killed in mid-stream: it makes a sandbox, starts a process in it and copies its output
// to stdout until it dies. Its first line is the handle.
func littleServer() int {
	fail := func(err error) int { fmt.Fprintln(os.Stderr, err); return 1 }
	ctx := context.Background()
	dir := os.Getenv("PARAWORK_TEST_SERVER")
	e, err := local.New(local.Config{Enabled: true, Dir: filepath.Join(dir, "sandboxes"), GuestPath: os.Getenv("PARAWORK_TEST_GUEST")})
	if err != nil {
		return fail(err)
	}
	sb, err := e.Create(ctx, executors.Spec{ID: "sbx_killed", TeamID: "team_1", WorkspaceID: "ws_1", Root: filepath.Join(dir, "root")})
	if err != nil {
		return fail(err)
	}
	c := client.New(client.Config{Dial: sb.Dial, Token: sb.Token(), SandboxID: "sbx_killed", Now: time.Now})
	_, err = c.Start(ctx, guest.ProcessSpec{ID: "p_killed", Tty: true, Size: guest.Size{Cols: 80, Rows: 24},
		Argv: []string{"/bin/sh", "-c", "seq -f 'line %.0f of the stream' 1 " + strconv.Itoa(serverLines) + "; read -r x; echo got $x; exit 43"}})
	if err != nil {
		return fail(err)
	}
	handle, err := json.Marshal(sb.Handle())
	if err != nil {
		return fail(err)
	}
	fmt.Printf("%s\n", handle)
	out, err := c.Output(ctx, "p_killed", guest.Terminal, 0)
	if err != nil {
		return fail(err)
	}
	_, err = io.Copy(os.Stdout, out)
	return fail(err)
}

// The server is killed with -9 in mid-stream: the process goes on, and the next server gets exactly the missing bytes.
func TestServerKilledInMidStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "root"), 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := exec.Command(self)
	server.Env = append(os.Environ(), "PARAWORK_TEST_SERVER="+dir, "PARAWORK_TEST_GUEST="+guestPath)
	server.Stderr = t.Output()
	pipe, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(pipe)
	line, err := r.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the little server told no handle: %v", err)
	}
	var handle executors.Handle
	if err := json.Unmarshal(line, &handle); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := io.CopyN(&got, r, 300_000); err != nil {
		t.Fatalf("the first bytes: %v", err)
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(&got, r); err != nil { // what it had passed on before it died
		t.Fatal(err)
	}
	_ = server.Wait()

	e := newExecutor(t, dir)
	sb, err := e.Recover(t.Context(), handle)
	if err != nil {
		t.Fatalf("Recover: %v", err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	})
	c := dial(t, sb)
	out, err := c.Output(t.Context(), "p_killed", guest.Terminal, int64(got.Len()))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if out.From != int64(got.Len()) {
		t.Fatalf("Output begins at %d, asked for %d", out.From, got.Len())
	}
	in, err := c.Input(t.Context(), "p_killed")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Write(1, []byte("hello\r")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(&got, out); err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	for i := 1; i <= serverLines; i++ {
		fmt.Fprintf(&want, "line %d of the stream\r\n", i)
	}
	text := strings.Replace(got.String(), "hello\r\n", "", 1) // the echo of what was typed may stand anywhere
	if want.WriteString("got hello\r\n"); text != want.String() {
		t.Errorf("bytes are missing or changed: %d of %d", len(text), want.Len())
	}
	end, err := c.Wait(t.Context(), "p_killed")
	if err != nil || end.ExitCode == nil || *end.ExitCode != 43 {
		t.Errorf("ended as %+v, %v", end, err)
	}
}
