package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/parawork/parawork/cmd/parawork/doctor"
)

// doctor looks at everything Parawork needs and changes nothing.
func (p program) doctor(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("doctor", flag.ContinueOnError)
	file := fs.String("config", "", "config.json")
	show := fs.Bool("print-config", false, "print the configuration, without secrets, and nothing else")
	checkAudit := fs.Bool("audit", false, "check the audit as well: that no entry was changed, removed or put in between")
	auditFile := fs.String("audit-file", "", "check a `FILE` that was exported from the audit, in JSON, instead")
	if err := p.parse(fs, args); err != nil {
		return err
	}
	cfg, err := p.config(*file)
	if *show {
		if err != nil {
			return err
		}
		fmt.Fprint(p.stdout, cfg.Redacted())
		return nil
	}
	x := doctor.Examination{Config: cfg, Kinds: p.kinds, Unreadable: err, Version: version, Env: p.env, Guest: p.guest, GuestCarried: carriesGuest(), Audit: *checkAudit || *auditFile != "", AuditFile: *auditFile}
	if !x.Run(ctx, p.stdout) {
		return errReported
	}
	return nil
}
