package screen

// The parser's states, after Paul Williams' diagram of the VT500.
const (
	ground = iota
	escape
	escapeIntermediate
	csiEntry
	csiParam
	csiIntermediate
	csiIgnore
	skipString // SOS, PM and APC
	oscString
	dcsEntry
	dcsParam
	dcsIgnore
	dcsIntermediate
	dcsPassthrough
)

// Actions of the parser in a transition.
const (
	doIgnore = iota
	doError
	doPrint
	doExecute
	doOSCStart
	doOSCPut
	doOSCEnd
	doCSI
	doParam
	doCollect
	doESC
	doClear
	doHook
	doPut
	doUnhook
)

// transitions holds, for each state and character, action<<4 | next state. Characters from U+00A0 on count as U+00A0.
var transitions = makeTransitions()

func makeTransitions() (t [14 << 8]uint8) {
	for i := range t {
		t[i] = doError<<4 | ground
	}
	add := func(state, from, to int, action, next uint8) {
		for c := from; c <= to; c++ {
			t[state<<8|c] = action<<4 | next
		}
	}
	controls := func(state int, action uint8) {
		for _, r := range [][2]int{{0, 0x17}, {0x19, 0x19}, {0x1c, 0x1f}} {
			add(state, r[0], r[1], action, uint8(state))
		}
	}
	add(ground, 0x20, 0x7e, doPrint, ground)
	for s := ground; s <= dcsPassthrough; s++ {
		for _, c := range []int{0x18, 0x1a, 0x99, 0x9a} {
			add(s, c, c, doExecute, ground)
		}
		add(s, 0x80, 0x97, doExecute, ground)
		add(s, 0x9c, 0x9c, doIgnore, ground)
		add(s, 0x1b, 0x1b, doClear, escape)
		add(s, 0x9d, 0x9d, doOSCStart, oscString)
		for _, c := range []int{0x98, 0x9e, 0x9f} {
			add(s, c, c, doIgnore, skipString)
		}
		add(s, 0x9b, 0x9b, doClear, csiEntry)
		add(s, 0x90, 0x90, doClear, dcsEntry)
	}
	for _, s := range []int{ground, escape, csiEntry, csiParam, csiIgnore, csiIntermediate, escapeIntermediate} {
		controls(s, doExecute)
	}
	for _, s := range []int{escape, csiEntry, csiParam, csiIntermediate} {
		add(s, 0x7f, 0x7f, doIgnore, uint8(s))
	}
	controls(oscString, doIgnore)
	add(escape, 0x5d, 0x5d, doOSCStart, oscString)
	add(oscString, 0x20, 0x7f, doOSCPut, oscString)
	for _, c := range []int{0x9c, 0x1b, 0x18, 0x1a, 0x07} {
		add(oscString, c, c, doOSCEnd, ground)
	}
	for _, c := range []int{0x58, 0x5e, 0x5f} {
		add(escape, c, c, doIgnore, skipString)
	}
	add(skipString, 0x20, 0x7f, doIgnore, skipString)
	controls(skipString, doIgnore)
	add(skipString, 0x9c, 0x9c, doIgnore, ground)

	add(escape, 0x5b, 0x5b, doClear, csiEntry)
	add(csiEntry, 0x40, 0x7e, doCSI, ground)
	add(csiEntry, 0x30, 0x3b, doParam, csiParam)
	add(csiEntry, 0x3c, 0x3f, doCollect, csiParam)
	add(csiParam, 0x30, 0x3b, doParam, csiParam)
	add(csiParam, 0x40, 0x7e, doCSI, ground)
	add(csiParam, 0x3c, 0x3f, doIgnore, csiIgnore)
	add(csiIgnore, 0x20, 0x3f, doIgnore, csiIgnore)
	add(csiIgnore, 0x7f, 0x7f, doIgnore, csiIgnore)
	add(csiIgnore, 0x40, 0x7e, doIgnore, ground)
	add(csiEntry, 0x20, 0x2f, doCollect, csiIntermediate)
	add(csiIntermediate, 0x20, 0x2f, doCollect, csiIntermediate)
	add(csiIntermediate, 0x30, 0x3f, doIgnore, csiIgnore)
	add(csiIntermediate, 0x40, 0x7e, doCSI, ground)
	add(csiParam, 0x20, 0x2f, doCollect, csiIntermediate)

	add(escape, 0x20, 0x2f, doCollect, escapeIntermediate)
	add(escapeIntermediate, 0x20, 0x2f, doCollect, escapeIntermediate)
	add(escapeIntermediate, 0x30, 0x7e, doESC, ground)
	for _, r := range [][2]int{{0x30, 0x4f}, {0x51, 0x57}, {0x59, 0x5a}, {0x5c, 0x5c}, {0x60, 0x7e}} {
		add(escape, r[0], r[1], doESC, ground)
	}

	add(escape, 0x50, 0x50, doClear, dcsEntry)
	for _, s := range []int{dcsEntry, dcsIgnore, dcsParam, dcsIntermediate} {
		controls(s, doIgnore)
		add(s, 0x7f, 0x7f, doIgnore, uint8(s))
	}
	add(dcsEntry, 0x20, 0x2f, doCollect, dcsIntermediate)
	add(dcsEntry, 0x30, 0x3b, doParam, dcsParam)
	add(dcsEntry, 0x3c, 0x3f, doCollect, dcsParam)
	add(dcsIgnore, 0x20, 0x7f, doIgnore, dcsIgnore)
	add(dcsParam, 0x30, 0x3b, doParam, dcsParam)
	add(dcsParam, 0x3c, 0x3f, doIgnore, dcsIgnore)
	add(dcsParam, 0x20, 0x2f, doCollect, dcsIntermediate)
	add(dcsIntermediate, 0x20, 0x2f, doCollect, dcsIntermediate)
	add(dcsIntermediate, 0x30, 0x3f, doIgnore, dcsIgnore)
	for _, s := range []int{dcsIntermediate, dcsParam, dcsEntry} {
		add(s, 0x40, 0x7e, doHook, dcsPassthrough)
	}
	controls(dcsPassthrough, doPut)
	add(dcsPassthrough, 0x20, 0x7e, doPut, dcsPassthrough)
	add(dcsPassthrough, 0x7f, 0x7f, doIgnore, dcsPassthrough)
	for _, c := range []int{0x1b, 0x9c, 0x18, 0x1a} {
		add(dcsPassthrough, c, c, doUnhook, ground)
	}

	add(ground, 0xa0, 0xa0, doPrint, ground)
	add(oscString, 0xa0, 0xa0, doOSCPut, oscString)
	add(csiIgnore, 0xa0, 0xa0, doIgnore, csiIgnore)
	add(dcsIgnore, 0xa0, 0xa0, doIgnore, dcsIgnore)
	add(dcsPassthrough, 0xa0, 0xa0, doPut, dcsPassthrough)
	return t
}
