//go:build linux

package daemon_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/parawork/parawork/guest/hook"
)

// programs are what the guest runs in tests, by re-executing the test binary.
var programs = map[string]func(){
	"spew":   programSpew,
	"echo":   programEcho,
	"listen": programListen,
	"deaf":   programDeaf,
	"hook":   programHook,
	"tool":   func() { fmt.Println(os.Args[1:]) }, // what the command line is given
}

// programHook is what the hooks of an agent run.
func programHook() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := hook.Run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// patternAt fills p with the bytes of a stream from offset off in which every offset differs from its neighbours.
func patternAt(p []byte, off int64) {
	for i := range p {
		x := uint64(off+int64(i)) * 0x9E3779B97F4A7C15
		p[i] = byte(' ' + (x>>33)%94)
	}
}

// programSpew waits for a byte of input and then writes N bytes as fast as they are taken; at a terminal, a raw one.
func programSpew() {
	n, err := strconv.ParseInt(os.Args[1], 10, 64)
	if err != nil {
		os.Exit(2)
	}
	if term.IsTerminal(0) {
		if _, err := term.MakeRaw(0); err != nil {
			os.Exit(3)
		}
	}
	all := make([]byte, n)
	patternAt(all, 0)
	fmt.Print("R")
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
		os.Exit(4)
	}
	for p := all; len(p) > 0; {
		k, err := os.Stdout.Write(p[:min(len(p), 64<<10)])
		if err != nil {
			os.Exit(5)
		}
		p = p[k:]
	}
}

// programEcho writes back what it reads, in raw mode.
func programEcho() {
	if _, err := term.MakeRaw(0); err != nil {
		os.Exit(3)
	}
	fmt.Print("R")
	r := bufio.NewReader(os.Stdin)
	for {
		c, err := r.ReadByte()
		if err != nil {
			return
		}
		if _, err := os.Stdout.Write([]byte{c}); err != nil {
			return
		}
	}
}

// programListen listens on a port and says which.
func programListen() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.Exit(2)
	}
	fmt.Printf("port %d\n", l.Addr().(*net.TCPAddr).Port)
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

// programDeaf never reads its input, in raw mode.
func programDeaf() {
	if term.IsTerminal(0) {
		if _, err := term.MakeRaw(0); err != nil {
			os.Exit(3)
		}
	}
	fmt.Print("R")
	time.Sleep(time.Hour)
}
