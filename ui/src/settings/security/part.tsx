import { type ReactNode, useId } from "react";

/** One way to sign in: its name, what it is for, and what one can do. */
export function Part({ title, about, children }: { title: string; about?: ReactNode; children: ReactNode }) {
  const id = useId();
  return (
    <section aria-labelledby={id}>
      <h2 id={id} className="text-title font-semibold">
        {title}
      </h2>
      {about && <p className="mt-0.5 text-fg2">{about}</p>}
      <div className="mt-2.5">{children}</div>
    </section>
  );
}
