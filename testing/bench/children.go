package main

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/term"
)

// children are the programs the bench runs as processes of their own, by re-executing itself.
var children = map[string]func(args []string) error{
	"child-agent":  childAgent,
	"child-spew":   childSpew,
	"child-echo":   childEcho,
	"child-late":   childLate,
	"child-stamp":  childStamp,
	"child-bridge": childBridge,
	"child-guess":  childGuess,
	"child-tools":  childTools,
	"child-pipes":  childPipes,

	"child-pictures": childPictures,
}

// pattern fills buf with the bytes of the spew from offset off: printable, never a secret's shape, different everywhere.
func pattern(buf []byte, off int64) {
	for i := range buf {
		x := uint64(off+int64(i)) * 0x9E3779B97F4A7C15
		buf[i] = byte(' ' + (x>>33)%94)
	}
}

// patternHash is the sha256 of the first n bytes of the spew.
func patternHash(n int64) [32]byte {
	h := sha256.New()
	buf := make([]byte, 64<<10)
	for off := int64(0); off < n; off += int64(len(buf)) {
		p := buf[:min(int64(len(buf)), n-off)]
		pattern(p, off)
		h.Write(p)
	}
	return [32]byte(h.Sum(nil))
}

// childSpew waits for one byte of input, then writes N bytes as fast as the PTY takes them, in raw mode, and waits for one
// more byte so that its terminal stays up while the reader drains.
func childSpew(args []string) error {
	n, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	if _, err := term.MakeRaw(0); err != nil {
		return err
	}
	// Made beforehand, so that the child's own work is not what is measured.
	all := make([]byte, n)
	pattern(all, 0)
	one := make([]byte, 1)
	fmt.Print("R")
	if _, err := io.ReadFull(os.Stdin, one); err != nil {
		return err
	}
	for p := all; len(p) > 0; {
		k, err := os.Stdout.Write(p[:min(len(p), 64<<10)])
		if err != nil {
			return err
		}
		p = p[k:]
	}
	_, err = io.ReadFull(os.Stdin, one)
	return err
}

// childEcho writes back each byte it reads, in raw mode: the least an interactive program does for a keystroke.
func childEcho([]string) error {
	if _, err := term.MakeRaw(0); err != nil {
		return err
	}
	fmt.Print("R")
	r := bufio.NewReader(os.Stdin)
	for {
		c, err := r.ReadByte()
		if err != nil {
			return nil //nolint:nilerr // the end of input is the end of the child
		}
		if _, err := os.Stdout.Write([]byte{c}); err != nil {
			return err
		}
	}
}
