import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation } from "@tanstack/react-query";
import { useRef } from "react";
import { api, data, raw } from "@/api/client";
import { Avatar, avatarSrc } from "@/kit/avatar";
import { Button } from "@/kit/button";
import { FormError } from "@/kit/states";
import { useRefreshMe } from "@/people/use-refresh-me";
import { useMe, useTeam } from "@/state/team";

const SIDE = 512; // px of what is uploaded; the server makes it smaller

/** One's own picture: upload another one, or go back to initials. */
export function AvatarSetting() {
  const { user } = useMe();
  const team = useTeam();
  const refresh = useRefreshMe();
  const file = useRef<HTMLInputElement>(null);
  const upload = useMutation({
    mutationFn: async (picture: File) => {
      const body = await square(picture);
      await raw("/me/avatar", { method: "PUT", headers: { "Content-Type": "application/octet-stream" }, body });
    },
    onSuccess: refresh,
  });
  const remove = useMutation({ mutationFn: () => data(api.DELETE("/me/avatar")), onSuccess: refresh });
  return (
    <div>
      <p className="mb-2 font-medium">
        <Trans>Picture</Trans>
      </p>
      <div className="flex flex-wrap items-center gap-3">
        <Avatar
          id={user.id}
          name={user.name || user.email}
          src={avatarSrc(team.slug, user, "large")}
          className="size-16 text-figure"
        />
        <input
          ref={file}
          type="file"
          aria-label={t`Picture file`}
          accept="image/png,image/jpeg,image/webp"
          className="sr-only"
          tabIndex={-1}
          onChange={(e) => {
            const picture = e.target.files?.[0];
            e.target.value = "";
            if (picture) upload.mutate(picture);
          }}
        />
        <Button busy={upload.isPending && t`Uploading`} onClick={() => file.current?.click()}>
          <Trans>Upload a picture</Trans>
        </Button>
        {user.avatar && (
          <Button look="quiet" busy={remove.isPending && t`Removing`} onClick={() => remove.mutate()}>
            <Trans>Remove</Trans>
          </Button>
        )}
      </div>
      <p className="mt-2 text-meta text-fg3">
        <Trans>PNG, JPEG or WebP. Members of your teams see it.</Trans>
      </p>
      <FormError error={upload.error ?? remove.error} />
    </div>
  );
}

/** Cuts out the middle, upright as the camera was held. What the browser cannot read is left to the server to refuse. */
async function square(picture: File): Promise<Blob> {
  const image = await createImageBitmap(picture, { imageOrientation: "from-image" }).catch(() => undefined);
  if (!image) return picture;
  const n = Math.min(image.width, image.height);
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = Math.min(n, SIDE);
  const [x, y] = [(image.width - n) / 2, (image.height - n) / 2];
  canvas.getContext("2d")?.drawImage(image, x, y, n, n, 0, 0, canvas.width, canvas.height);
  return (await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"))) ?? picture;
}
