package main

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker.
var version = "dev"

// version prints what this is.
func (p program) version(args []string) error {
	if err := p.parse(flag.NewFlagSet("version", flag.ContinueOnError), args); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "parawork %s (%s, %s/%s%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, revision())
	return nil
}

// revision returns the commit a plain `go build` was made from.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return ", " + s.Value[:12]
		}
	}
	return ""
}
