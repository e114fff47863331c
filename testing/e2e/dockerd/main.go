// Command dockerd starts a Docker engine for browser tests, with its own data and one image made of this machine's programs under the
// names it is given: `dockerd ubuntu:latest`. It prints {"host": ...} or {"reason": ...}, and ends with its standard input.
package main

import (
	"encoding/json"
	"io"
	"os"

	"github.com/parawork/parawork/testing/testdocker"
)

func main() {
	out := json.NewEncoder(os.Stdout)
	d, err := testdocker.Start()
	if err != nil {
		_ = out.Encode(map[string]string{"reason": err.Error()})
		os.Exit(1)
	}
	defer d.Stop()
	for _, image := range os.Args[1:] {
		if err := d.Import(image); err != nil {
			_ = out.Encode(map[string]string{"reason": err.Error()})
			return
		}
	}
	_ = out.Encode(map[string]string{"host": d.Host})
	_, _ = io.Copy(io.Discard, os.Stdin)
}
