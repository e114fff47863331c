package toolstore

import (
	"context"
	"strings"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/textsearch"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/tools/skills"
)

// Skills stores skills and instructions.
type Skills struct{ db *store.DB }

var _ skills.Store = (*Skills)(nil)

// NewSkills returns the storage of skills in db.
func NewSkills(db *store.DB) *Skills { return &Skills{db} }

const (
	skillsBrief = skillBefore + `''` + skillAfter
	skillRows   = skillBefore + `v.text` + skillAfter
	skillBefore = `SELECT s.id, s.team_id, s.project_id, s.name, s.in_use, s.draft, s.latest, s.created_at, s.updated_at, v.version, v.description, `
	skillAfter  = `, v.user_id, v.agent, v.session_id, v.saved_at
		FROM skills s JOIN skill_versions v ON v.skill_id = s.id AND v.version = CASE WHEN s.in_use > 0 THEN s.in_use ELSE s.draft END AND {team:v} WHERE {team:s} `
	// usable are the skills of a team that agents of a project read: of two with one name that of the project.
	usable = `FROM skills s JOIN skill_versions v ON v.skill_id = s.id AND v.version = s.in_use AND {team:v} WHERE s.team_id = ? AND {team:s} AND (s.project_id = ? OR s.project_id = ''
		AND NOT EXISTS (SELECT 1 FROM skills o WHERE o.team_id = s.team_id AND o.project_id = ? AND o.name = s.name AND o.in_use > 0 AND {team:o}))`
	versionColumns = `version, description, text, user_id, agent, session_id, saved_at`
)

func scanSkill(r store.Scanner) (s skills.Skill, err error) {
	err = r.Scan(&s.ID, &s.TeamID, &s.ProjectID, &s.Name, &s.InUse, &s.Draft, &s.Latest, &s.CreatedAt, &s.UpdatedAt,
		&s.Number, &s.Description, &s.Text, &s.UserID, &s.Agent, &s.SessionID, &s.SavedAt)
	return s, err
}

// matches is the condition that the version v has a word of a query, with its arguments.
func matches(query string) (where string, args []any) {
	if strings.TrimSpace(query) == "" {
		return "", nil
	}
	where = `1 = 0`
	for _, p := range textsearch.Parse(query).Patterns() {
		where += ` OR v.named LIKE ? OR v.words LIKE ?`
		args = append(args, p.Part, p.Part)
	}
	return ` AND (` + where + `)`, args
}

// points rates the version v as textsearch.Query.Score does, with its arguments.
func points(q textsearch.Query) (rated string, args []any) {
	rated = `0`
	for _, p := range q.Patterns() {
		rated += ` + 3 * CASE WHEN v.named LIKE ? THEN 2 WHEN v.named LIKE ? THEN 1 ELSE 0 END + CASE WHEN v.words LIKE ? THEN 2 WHEN v.words LIKE ? THEN 1 ELSE 0 END`
		args = append(args, p.Whole, p.Part, p.Whole, p.Part)
	}
	return rated, args
}

// Skills returns a page of a team's skills, without texts.
func (s *Skills) Skills(ctx context.Context, teamID string, f skills.Filter, pg page.Page) ([]skills.Skill, string, error) {
	where, words := matches(f.Query)
	args := append([]any{teamID, f.ProjectID, f.ProjectID}, words...)
	if f.Drafts {
		where += ` AND s.draft > 0`
	}
	query, args, err := store.Keyset(skillsBrief+`AND s.team_id = ? AND (? = '' OR s.project_id = '' OR s.project_id = ?)`+where, "created_at", args, pg)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.db.Query(ctx, query, args...)
	out, err := store.Collect(rows, err, scanSkill)
	if err != nil {
		return nil, "", store.Wrap(err, "reading skills")
	}
	out, next := page.Cut(pg, out, func(k skills.Skill) page.Key { return page.Key{At: k.CreatedAt, ID: k.ID} })
	return out, next, nil
}

// InUse returns what agents of a project read.
func (s *Skills) InUse(ctx context.Context, teamID, projectID string, q textsearch.Query) ([]skills.Found, error) {
	rated, args := points(q)
	rows, err := s.db.Query(ctx, `SELECT s.name, v.description, '', `+rated+` `+usable+` ORDER BY s.name`, append(args, teamID, projectID, projectID)...)
	out, err := store.Collect(rows, err, scanFound)
	return out, store.Wrap(err, "looking for skills")
}

// Named returns a skill that agents of a project read.
func (s *Skills) Named(ctx context.Context, teamID, projectID, name string) (skills.Found, error) {
	k, err := scanFound(s.db.QueryRow(ctx, `SELECT s.name, v.description, v.text, 0 `+usable+` AND s.name = ?`, teamID, projectID, projectID, name))
	return k, store.Wrap(err, "reading a skill by its name")
}

func scanFound(r store.Scanner) (k skills.Found, err error) {
	return k, r.Scan(&k.Name, &k.Description, &k.Text, &k.Points)
}

// Skill returns a skill.
func (s *Skills) Skill(ctx context.Context, id string) (skills.Skill, error) {
	k, err := scanSkill(s.db.QueryRow(ctx, skillRows+`AND s.id = ?`, id))
	return k, store.Wrap(err, "reading a skill")
}

// Versions returns the versions of a skill.
func (s *Skills) Versions(ctx context.Context, id string) ([]skills.Version, error) {
	rows, err := s.db.Query(ctx, `SELECT `+versionColumns+` FROM skill_versions WHERE skill_id = ? AND {team} ORDER BY version DESC`, id)
	out, err := store.Collect(rows, err, func(r store.Scanner) (v skills.Version, err error) {
		return v, r.Scan(&v.Number, &v.Description, &v.Text, &v.UserID, &v.Agent, &v.SessionID, &v.SavedAt)
	})
	return out, store.Wrap(err, "reading the versions of a skill")
}

// SaveSkill stores the next version of a skill.
func (s *Skills) SaveSkill(ctx context.Context, k skills.Skill, draft bool, mustBe int64) (saved skills.Skill, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		_, err := s.db.Exec(ctx, `INSERT INTO skills (id, team_id, project_id, name, in_use, draft, latest, created_at, updated_at) VALUES (?,{team?},?,?,0,0,0,?,?) ON CONFLICT (team_id, project_id, name) DO NOTHING`,
			k.ID, k.TeamID, k.ProjectID, k.Name, k.CreatedAt, k.UpdatedAt)
		if err != nil {
			return err
		}
		// The row is locked from here on.
		if _, err := s.db.Exec(ctx, `UPDATE skills SET latest = latest + 1, updated_at = ? WHERE team_id = ? AND project_id = ? AND name = ? AND {team}`, k.UpdatedAt, k.TeamID, k.ProjectID, k.Name); err != nil {
			return err
		}
		var inUse, version int64
		if err := s.db.QueryRow(ctx, `SELECT id, in_use, latest FROM skills WHERE team_id = ? AND project_id = ? AND name = ? AND {team}`, k.TeamID, k.ProjectID, k.Name).Scan(&k.ID, &inUse, &version); err != nil {
			return err
		}
		if mustBe == 0 && version > 1 {
			return fault.New(fault.Conflict, "skill_exists", "There is a skill %s already.", k.Name)
		}
		if mustBe > 0 && version-1 != mustBe {
			return fault.New(fault.Conflict, "skill_changed", "The skill %s has another version %d than the one you began with. Read it again, and repeat your change.", k.Name, version-1)
		}
		if version == 1 {
			if err := s.room(ctx, k, draft); err != nil {
				return err
			}
		}
		if _, err := s.db.Exec(ctx, `INSERT INTO skill_versions (skill_id, team_id, `+versionColumns+`, named, words) VALUES (?,{team?},?,?,?,?,?,?,?,?,?)`, k.ID, k.TeamID, version, k.Description, k.Text, k.UserID, k.Agent,
			k.SessionID, k.SavedAt, textsearch.Words(k.Name+" "+k.Description), textsearch.Words(k.Text)); err != nil {
			return err
		}
		failpoint.Reach(failpoint.SkillSaved)
		set := `UPDATE skills SET in_use = ?, draft = 0 WHERE id = ? AND {team}`
		if draft {
			set = `UPDATE skills SET draft = ? WHERE id = ? AND {team}`
		}
		if _, err := s.db.Exec(ctx, set, version, k.ID); err != nil {
			return err
		}
		if _, err := s.db.Exec(ctx, `DELETE FROM skill_versions WHERE skill_id = ? AND {team} AND version <= ? AND version <> ?`, k.ID, version-skills.MaxVersions, inUse); err != nil {
			return err
		}
		saved, err = s.Skill(ctx, k.ID)
		return err
	})
	return saved, store.Wrap(err, "saving a skill")
}

// room refuses one skill too many. The new one is counted.
func (s *Skills) room(ctx context.Context, k skills.Skill, draft bool) error {
	var all, drafts int
	if err := s.db.QueryRow(ctx, `SELECT COUNT(*), COUNT(CASE WHEN in_use = 0 THEN 1 END) FROM skills WHERE team_id = ? AND project_id = ? AND {team}`, k.TeamID, k.ProjectID).Scan(&all, &drafts); err != nil {
		return err
	}
	if all > skills.MaxSkills || draft && drafts > skills.MaxDrafts {
		return fault.New(fault.Conflict, "skills_full", "There may be %d skills here, of them %d that nobody has accepted. Accept or delete some first.", skills.MaxSkills, skills.MaxDrafts)
	}
	return nil
}

// UseVersion puts a version into use.
func (s *Skills) UseVersion(ctx context.Context, id string, version, at int64) error {
	r, err := s.db.Exec(ctx, `UPDATE skills SET in_use = ?, draft = 0, updated_at = ? WHERE id = ? AND {team} AND EXISTS (SELECT 1 FROM skill_versions v WHERE v.skill_id = skills.id AND v.version = ? AND {team:v})`,
		version, at, id, version)
	if err != nil {
		return store.Wrap(err, "putting a version of a skill into use")
	}
	if n, err := r.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return fault.New(fault.NotFound, "skill_version_not_found", "The skill has no version %d, or it is kept no longer.", version)
}

// DeleteSkill deletes a skill.
func (s *Skills) DeleteSkill(ctx context.Context, id string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM skills WHERE id = ? AND {team}`, id)
	return store.Wrap(err, "deleting a skill")
}

// Instructions returns those of a team or a project.
func (s *Skills) Instructions(ctx context.Context, teamID, projectID string) (skills.Instructions, error) {
	i := skills.Instructions{TeamID: teamID, ProjectID: projectID}
	err := s.db.QueryRow(ctx, `SELECT text, accepts, updated_by, updated_at FROM agent_instructions WHERE team_id = ? AND project_id = ? AND {team}`, teamID, projectID).Scan(&i.Text, &i.Accepts, &i.UpdatedBy, &i.UpdatedAt)
	if fault.Is(err, fault.NotFound) {
		err = nil
	}
	return i, store.Wrap(err, "reading instructions for agents")
}

// SetInstructions replaces them.
func (s *Skills) SetInstructions(ctx context.Context, i *skills.Instructions, accepts *bool) error {
	first := accepts != nil && *accepts
	err := s.db.QueryRow(ctx, `INSERT INTO agent_instructions (team_id, project_id, text, accepts, updated_by, updated_at) VALUES ({team?},?,?,?,?,?)
		ON CONFLICT (team_id, project_id) DO UPDATE SET text = excluded.text, updated_by = excluded.updated_by, updated_at = excluded.updated_at,
		accepts = CASE WHEN ? THEN excluded.accepts ELSE agent_instructions.accepts END RETURNING accepts`,
		i.TeamID, i.ProjectID, i.Text, first, i.UpdatedBy, i.UpdatedAt, accepts != nil).Scan(&i.Accepts)
	return store.Wrap(err, "storing instructions for agents")
}
