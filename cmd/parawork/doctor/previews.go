package doctor

import (
	"strings"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/config"
)

// previews says where ports of sandboxes are shown.
func (r *report) previews(cfg *config.Config) {
	switch p := cfg.Preview; {
	case p.BaseDomain != "":
		r.say(good, "previews", "ports of sandboxes are shown below *."+p.BaseDomain, "")
	case fromconfig.LoopbackOnly(cfg.Server.Listen) && cfg.Server.PublicURL == "":
		r.say(good, "previews", "ports of sandboxes are shown below *.localhost", "")
	case p.Listen != "" && strings.HasPrefix(cfg.Server.PublicURL, "https:"):
		r.say(minor, "previews", "ports of sandboxes are shown at "+p.Listen+" without https, and browsers show no such page in one of https",
			"Set preview.baseDomain or preview.contentUrl instead: docs/preview.md")
	case p.Listen != "":
		r.say(good, "previews", "ports of sandboxes are shown below a path at "+p.Listen, "")
	case p.ContentURL != "":
		r.say(good, "previews", "ports of sandboxes are shown below a path of "+p.ContentURL, "")
	default:
		r.say(minor, "previews", "off: ports of sandboxes are not shown", "Set preview.baseDomain, or preview.listen where there is no wildcard domain: docs/preview.md")
	}
}
