import { api, data, raw, type Schemas } from "@/api/client";

// What signing in and one's own account ask of the server. See docs/signing-in.md.

export type Provider = Schemas["SignInProvider"];
/** How one may sign in to this server. */
export type Ways = Schemas["SignInWays"];
export type Method = Schemas["SignInMethod"];
/** The first factor succeeded; the second is required before expires_at (ms UTC). */
export type SecondStep = Schemas["LoginWaiting"];
export type Passkey = Schemas["Passkey"];
export type Identity = Schemas["Identity"];
/** By what the signed-in user can sign in. */
export type OwnWays = Schemas["MySignIn"];
export type LoginSession = Schemas["LoginSession"];
export type Scope = Schemas["Scope"];
export type Token = Schemas["Token"];
export type NewToken = Schemas["NewToken"];

/** The options of a WebAuthn ceremony as the server says them: bytes are base64url. */
export type CreationOptions = PublicKeyCredentialCreationOptionsJSON;
export type RequestOptions = PublicKeyCredentialRequestOptionsJSON;
/** What the browser answers to them. */
export type CredentialJSON = Record<string, unknown>;

const optionsOf = async <T>(call: Promise<{ options: Record<string, unknown> }>): Promise<T> =>
  (await call).options as T;

export const readWays = () => data(api.GET("/sign-in"));

/** What a sign-in under way waits for, such as one that came back from a provider. */
export const readSecondStep = () => data(api.GET("/login/factor"));
export const signInWithCode = (method: "totp" | "recovery_code", code: string) =>
  data(api.POST("/login/factor", { body: { method, code } }));
export const passkeyOptions = () => optionsOf<RequestOptions>(data(api.POST("/login/passkey/options")));
export const signInWithPasskey = (credential: CredentialJSON) =>
  data(api.POST("/login/passkey", { body: { credential } }));
export const askForLink = (email: string) =>
  raw("/password/forgot", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ email }),
  });
export const resetPassword = (token: string, password: string, keep_tokens: boolean) =>
  api.POST("/password/reset", { body: { token, password, keep_tokens } });
export const confirmEmail = (token: string) => api.POST("/email/confirm", { body: { token } });

export const readOwnWays = () => data(api.GET("/me/sign-in"));
export const confirmBy = (proof: { password: string } | { code: string }) => api.POST("/me/confirm", { body: proof });
export const confirmOptions = () => optionsOf<RequestOptions>(data(api.POST("/me/confirm/passkey/options")));
export const confirmByPasskey = (credential: CredentialJSON) =>
  api.POST("/me/confirm/passkey", { body: { credential } });

export const beginApp = () => data(api.POST("/me/totp"));
export const confirmApp = async (code: string) =>
  (await data(api.POST("/me/totp/confirm", { body: { code } }))).recovery_codes;
export const removeApp = () => api.DELETE("/me/totp");
export const newRecoveryCodes = async () => (await data(api.POST("/me/recovery-codes"))).recovery_codes;

export const newPasskeyOptions = () => optionsOf<CreationOptions>(data(api.POST("/me/passkeys/options")));
export const addPasskey = (name: string, credential: CredentialJSON) =>
  data(api.POST("/me/passkeys", { body: { name, credential } }));
export const renamePasskey = (id: string, name: string) =>
  data(api.PATCH("/me/passkeys/{id}", { params: { path: { id } }, body: { name } }));
export const removePasskey = (id: string) => api.DELETE("/me/passkeys/{id}", { params: { path: { id } } });

/** Begins to link an account elsewhere; the browser is to go to the address, and comes back to the page `next`. */
export const linkProvider = async (provider: string, next: string) =>
  (await data(api.POST("/me/identities/{provider}", { params: { path: { provider }, query: { next } } }))).url;
export const unlinkProvider = (identity: string) =>
  api.DELETE("/me/identities/{provider}", { params: { path: { provider: identity } } });

export const readLoginSessions = async () => (await data(api.GET("/me/login-sessions"))).items;
export const endLoginSession = (id: string, keep_tokens: boolean) =>
  api.DELETE("/me/login-sessions/{id}", { params: { path: { id }, query: { keep_tokens } } });
export const endOtherLoginSessions = (keep_tokens: boolean) =>
  api.POST("/me/login-sessions/end-others", { body: { keep_tokens } });

export const readTokens = async () => (await data(api.GET("/me/tokens"))).items;
export const makeToken = (t: NewToken) => data(api.POST("/me/tokens", { body: t }));
export const endToken = (id: string) => api.DELETE("/me/tokens/{id}", { params: { path: { id } } });
