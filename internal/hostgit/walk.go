package hostgit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Walk enumerates the objects that some commits reach and others do not.
type Walk struct {
	run  func(ctx context.Context, c Call) ([]byte, error)
	revs string // in the format of rev-list, one a line
}

// Object is one object of a repository.
type Object struct {
	ID, Kind string // commit, tree, blob, tag
	Size     int64
}

// Walk returns the walk of revs, in the format of rev-list's standard input.
func (d *Scratch) Walk(limit time.Duration, revs ...string) Walk {
	return Walk{run: func(ctx context.Context, c Call) ([]byte, error) {
		c.Timeout = limit
		return d.Run(ctx, c)
	}, revs: strings.Join(revs, "\n") + "\n"}
}

// Walk returns the walk of the received objects: what the tips reach, excluding what known commits reach and, where the new objects may
// refer to all of the repository, what its refs reach.
func (in *Quarantine) Walk(ctx context.Context, tips map[string]bool, l QuarantineLimits, known ...string) (Walk, error) {
	var revs bytes.Buffer
	for id := range tips {
		revs.WriteString(id + "\n")
	}
	for _, id := range known {
		revs.WriteString("^" + id + "\n")
	}
	if in.sees[0] == in.objects {
		refs, err := in.scratch.git.Run(ctx, Call{GitDir: in.gitDir, Max: 256 << 20, Args: []string{"for-each-ref", "--format=^%(objectname)"}})
		if err != nil {
			return Walk{}, err
		}
		revs.Write(refs)
	}
	return Walk{run: func(ctx context.Context, c Call) ([]byte, error) {
		of := in.call(l, c.Args...)
		of.Stdin, of.Stdout, of.Max = c.Stdin, c.Stdout, c.Max
		return in.scratch.git.Run(ctx, of)
	}, revs: revs.String()}, nil
}

// errFound ends a walk early.
var errFound = errors.New("enough was read")

// Find calls fn with each object and its content until fn returns true, and returns that object; the zero Object when there is none. It is
// as fast as git reads the objects, and holds no more of them in memory than fn does.
func (w Walk) Find(ctx context.Context, fn func(o Object, content io.Reader) (bool, error)) (Object, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	names, listed := io.Pipe()
	contents, read := io.Pipe()
	done := make(chan error, 2)
	go func() { // both end with git, which ends with ctx
		_, err := w.run(ctx, Call{Args: []string{"rev-list", "--objects", "--no-object-names", "--stdin", "--ignore-missing"}, Stdin: strings.NewReader(w.revs), Stdout: listed})
		listed.CloseWithError(err)
		done <- err
	}()
	go func() {
		_, err := w.run(ctx, Call{Args: []string{"cat-file", "--batch", "--buffer"}, Stdin: names, Stdout: read})
		names.CloseWithError(io.ErrClosedPipe)
		read.CloseWithError(err)
		done <- err
	}()
	found, err := readObjects(contents, fn)
	cancel()
	contents.CloseWithError(io.ErrClosedPipe)
	names.CloseWithError(io.ErrClosedPipe)
	first, second := <-done, <-done
	if errors.Is(err, errFound) {
		return found, nil
	}
	for _, of := range [...]error{first, second} { // git's own error, before its effect on the other
		if g, ok := errors.AsType[*Error](of); ok && !errors.Is(g.Err, context.Canceled) {
			return Object{}, of
		}
	}
	if err == nil && ctx.Err() == nil {
		err = errors.Join(first, second)
	}
	return Object{}, err
}

// ReadObjects calls fn with each object that cat-file --batch prints, and its content, until fn says that it is enough.
func ReadObjects(from io.Reader, fn func(o Object, content io.Reader) (bool, error)) error {
	if _, err := readObjects(from, fn); err != nil && !errors.Is(err, errFound) {
		return err
	}
	return nil
}

// readObjects reads what cat-file --batch prints.
func readObjects(from io.Reader, fn func(o Object, content io.Reader) (bool, error)) (Object, error) {
	r := bufio.NewReaderSize(from, 256<<10)
	for {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			return Object{}, nil
		}
		if err != nil {
			return Object{}, err
		}
		f := strings.Fields(line)
		if len(f) == 2 && f[1] == "missing" { // the rest of a shallow history
			continue
		}
		if len(f) != 3 {
			return Object{}, fmt.Errorf("cat-file answered %.200q", line)
		}
		o := Object{ID: f[0], Kind: f[1]}
		if o.Size, err = strconv.ParseInt(f[2], 10, 64); err != nil || o.Size < 0 {
			return Object{}, fmt.Errorf("cat-file answered %.200q", line)
		}
		content := &io.LimitedReader{R: r, N: o.Size}
		is, err := fn(o, content)
		if err != nil {
			return Object{}, err
		}
		if is {
			return o, errFound
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return Object{}, err
		}
		if content.N != 0 {
			return Object{}, io.ErrUnexpectedEOF
		}
		if _, err := r.Discard(1); err != nil {
			return Object{}, err
		}
	}
}

// PathOf returns a path of an object in the walk, "" where it has none.
func (w Walk) PathOf(ctx context.Context, id string) (string, error) {
	f := &namer{want: id + " "}
	_, err := w.run(ctx, Call{Args: []string{"rev-list", "--objects", "--stdin", "--ignore-missing"}, Stdin: strings.NewReader(w.revs), Stdout: f})
	return f.name, err
}

// namer stores the rest of the line that begins with want.
type namer struct {
	want, name string
	line       []byte
}

func (n *namer) Write(p []byte) (int, error) {
	for _, c := range p {
		switch {
		case c == '\n':
			if name, ok := strings.CutPrefix(string(n.line), n.want); ok && n.name == "" {
				n.name = name
			}
			n.line = n.line[:0]
		case len(n.line) < 4096+70:
			n.line = append(n.line, c)
		}
	}
	return len(p), nil
}

// maxTouching limits how many commits Holding checks: the first are enough to say that there are some.
const maxTouching = "1000"

// Holding returns a commit of the walk that added something at a path without a newline; "" when none did.
func (w Walk) Holding(ctx context.Context, name string) (string, error) {
	out, err := w.run(ctx, Call{Args: []string{"rev-list", "--full-history", "--stdin", "--ignore-missing", "--max-count=" + maxTouching, "--", name},
		Stdin: strings.NewReader(w.revs), Max: 1 << 20})
	commits := strings.Fields(string(out))
	if err != nil || len(commits) == 0 {
		return "", err
	}
	var ask strings.Builder
	for _, c := range commits {
		ask.WriteString(c + ":" + name + "\n")
	}
	out, err = w.run(ctx, Call{Args: []string{"cat-file", "--batch-check"}, Stdin: strings.NewReader(ask.String()), Max: 8 << 20})
	if err != nil {
		return "", err
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		if !strings.HasSuffix(line, " missing") && i < len(commits) {
			return commits[i], nil
		}
	}
	return "", nil
}
