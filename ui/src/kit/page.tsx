import type { ReactNode } from "react";

/** A page that scrolls: its title, actions beside it, content below. */
export function Page({
  title,
  about,
  actions,
  children,
}: {
  title: string;
  about?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}) {
  return (
    <div className="h-full overflow-y-auto">
      <div className="mx-auto max-w-page px-4 py-5 md:px-6">
        <header className="mb-4 flex flex-wrap items-start gap-x-4 gap-y-2">
          <div className={about ? "min-w-0 flex-1 basis-64" : "min-w-0 flex-1"}>
            <h1 className="text-page font-semibold">{title}</h1>
            {about && <p className="text-fg2">{about}</p>}
          </div>
          {actions && <div className="flex flex-wrap gap-2">{actions}</div>}
        </header>
        {children}
      </div>
    </div>
  );
}
