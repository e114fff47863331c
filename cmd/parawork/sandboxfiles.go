package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

func putFile(ctx context.Context, c *sandboxCall) (int, error) {
	from, to := c.args[1], ""
	if len(c.args) > 2 {
		to = c.args[2]
	}
	r := c.program.stdin
	if from != "-" {
		f, err := os.Open(from)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		r = f
		if to == "" || strings.HasSuffix(to, "/") {
			to = path.Join(to, filepath.Base(from))
		}
	}
	if to == "" {
		return 0, wrongly("the path of what comes from standard input is missing")
	}
	raw, err := c.api.Write(ctx, c.args[0], to, io.NopCloser(r))
	if err != nil {
		return 0, err
	}
	return 0, c.print(raw, func() error { return nil })
}

func getFile(ctx context.Context, c *sandboxCall) (int, error) {
	if len(c.args) < 3 || c.args[2] == "-" {
		return 0, c.api.Read(ctx, c.args[0], c.args[1], c.stdout)
	}
	to := c.args[2]
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		to = filepath.Join(to, path.Base(c.args[1]))
	}
	f, err := os.CreateTemp(filepath.Dir(to), ".parawork-*") // a file that is there stays as it is until all has come
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	if err := errors.Join(c.api.Read(ctx, c.args[0], c.args[1], f), f.Chmod(0o644), f.Close()); err != nil {
		return 0, err
	}
	return 0, os.Rename(f.Name(), to)
}

func listFiles(ctx context.Context, c *sandboxCall) (int, error) {
	folder := ""
	if len(c.args) > 1 {
		folder = c.args[1]
	}
	raw, err := c.api.Files(ctx, c.args[0], folder)
	if err != nil {
		return 0, err
	}
	return 0, c.print(raw, func() error {
		var list struct {
			Items []struct {
				Name, Type string
				Size       int64
				Mtime      int64
			}
			Truncated bool
		}
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
		w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
		for _, f := range list.Items {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", f.Type, f.Size, time.UnixMilli(f.Mtime).Format(time.DateTime), printable(f.Name))
		}
		if list.Truncated {
			fmt.Fprintln(c.stderr, "parawork: the folder has more files than are listed.")
		}
		return w.Flush()
	})
}

// printable quotes a name that a terminal would take as more than text.
func printable(name string) string {
	if q := strconv.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}

func removeFile(ctx context.Context, c *sandboxCall) (int, error) {
	return 0, c.api.Remove(ctx, c.args[0], c.args[1], c.recursive)
}
