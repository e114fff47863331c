// Package attend starts programs in a container for whoever knows its secret: in a place where a connection can be made to a port of a container,
// and nothing else can be done in it.
//
// A connection begins with one line of JSON: the secret, and the program with its arguments. Then come frames. To the program: 4 bytes of length
// (big endian) and so many bytes of its input; length 0 ends the input. From it: a byte that says what follows (Output, or Ended and last), 4
// bytes of length, and so many bytes. The end of the connection ends the program with all that stayed in its process group.
package attend

import (
	"bufio"
	"context"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// SecretEnv is where the secret is taken from. It is removed from the environment.
const SecretEnv = "PARAWORK_CONTAINER_SECRET"

// Kinds of frames from a program.
const (
	Output byte = 1
	Ended  byte = 2 // 4 bytes: the exit code
)

const (
	maxLine  = 1 << 20
	maxFrame = 64 << 10
	beginIn  = 10 * time.Second // a connection must say what it wants
	goneIn   = 10 * time.Second // a host must go when the program has ended
)

// Ask is the first line of a connection.
type Ask struct {
	Secret string   `json:"secret"`
	Argv   []string `json:"argv"`
}

// Run is `parawork-guest attend --listen ADDRESS`: a port such as :8790, or unix: and the path of a socket. It is a container's first process, and
// reaps what nobody else does.
func Run(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("parawork-guest attend", flag.ContinueOnError)
	listen := fs.String("listen", ":8790", "port, or unix:PATH")
	if err := fs.Parse(args); err != nil {
		return err
	}
	secret := os.Getenv(SecretEnv)
	_ = os.Unsetenv(SecretEnv)
	if secret == "" {
		return errors.New("a secret is required in " + SecretEnv)
	}
	network, address := "tcp", *listen
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", filepath.Clean(path)
		_ = os.Remove(address)
	}
	l, err := new(net.ListenConfig).Listen(ctx, network, address)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	var programs sync.RWMutex // programs of ours are waited for by os/exec, orphans by reap
	if os.Getpid() == 1 {
		go reap(ctx, &programs) // ends with ctx
	}
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		go func() { // ends with the connection
			defer c.Close()
			serve(ctx, c, secret, &programs)
		}()
	}
}

// reap takes the ends of processes whose parents have gone. It looks only while no program of ours runs, so that it takes none of theirs.
func reap(ctx context.Context, programs *sync.RWMutex) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ended:
		}
		if !programs.TryLock() { // the end of a program tells again
			continue
		}
		for {
			var status syscall.WaitStatus
			if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
		programs.Unlock()
	}
}

func serve(ctx context.Context, c net.Conn, secret string, programs *sync.RWMutex) {
	_ = c.SetReadDeadline(time.Now().Add(beginIn))
	in := bufio.NewReaderSize(c, 64<<10)
	text, err := readLine(in)
	if err != nil {
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	var ask Ask
	if json.Unmarshal(text, &ask) != nil || len(ask.Argv) == 0 || subtle.ConstantTimeCompare([]byte(ask.Secret), []byte(secret)) != 1 {
		return
	}
	out := &frames{w: c}
	programs.RLock()
	defer programs.RUnlock()
	cmd := exec.CommandContext(ctx, ask.Argv[0], ask.Argv[1:]...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // what outlives the program may hold its output open
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_, _ = fmt.Fprintln(out, err)
		out.end(127)
		return
	}
	fed, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with the connection
		defer close(fed)
		_ = feed(stdin, in) // it ends when the host has gone
		select {
		case <-ended:
		default:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		_ = stdin.Close()
	}()
	_ = cmd.Wait()
	close(ended)
	out.end(cmd.ProcessState.ExitCode())
	// The host goes first: a connection that is closed while something of it is unread loses what was written last.
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	select {
	case <-fed:
	case <-time.After(goneIn):
	}
	_ = c.Close()
	<-fed
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLine {
			return nil, errors.New("the first line is too long")
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// feed carries the input to the program until the connection ends. Input that the program does not take is thrown away.
func feed(stdin io.WriteCloser, in *bufio.Reader) error {
	for open := true; ; {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(head[:])
		if n > maxFrame {
			return errors.New("a frame is too long")
		}
		if n == 0 {
			open = false
			_ = stdin.Close()
			continue
		}
		to := io.Writer(stdin)
		if !open {
			to = io.Discard
		}
		if _, err := io.CopyN(to, in, int64(n)); err != nil {
			open = false // the program takes no more
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return err
			}
		}
	}
}

// frames writes frames.
type frames struct {
	mu sync.Mutex
	w  io.Writer
}

func (f *frames) write(kind byte, p []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.w.Write(append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(p))), p...))
	return err
}

// Write writes output.
func (f *frames) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		n := min(len(p)-sent, maxFrame)
		if err := f.write(Output, p[sent:sent+n]); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

func (f *frames) end(code int) {
	_ = f.write(Ended, binary.BigEndian.AppendUint32(nil, uint32(int32(code))))
}
