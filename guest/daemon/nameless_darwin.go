package daemon

import (
	"errors"
	"os"
)

// nameless returns an error: this system has no files without a name.
func (d *Daemon) nameless(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func (d *Daemon) name(*os.File, string) error { return errors.ErrUnsupported }
