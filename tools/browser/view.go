package browser

import "encoding/json"

type view struct{}

func (v *view) bump()                                       {}
func (v *view) frame(b *browser, t *tab, p json.RawMessage) {}
